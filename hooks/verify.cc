#include "hooks/verify.h"

#include <cstring>
#include <utility>

#include "hooks/device.h"
#include "hooks/insist.h"
#include "hooks/replay.h"

namespace ebbtide {

namespace {

// Where a dense tensor begins, given the bytes of its storage.
const char* BytesOf(const at::Tensor& tensor, const c10::Storage& bytes) {
  return static_cast<const char*>(bytes.data()) +
         tensor.storage_offset() * tensor.itemsize();
}

}  // namespace

bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes() ||
      a.strides() != b.strides() || a.storage_offset() != b.storage_offset() ||
      a.is_conj() != b.is_conj() || a.is_neg() != b.is_neg()) {
    return false;
  }
  const bool dense = a.is_non_overlapping_and_dense();
  const at::Tensor x = dense ? a : a.contiguous();
  const at::Tensor y = dense ? b : b.contiguous();
  const c10::Storage x_bytes = Device::Get().OnHost(x.storage());
  const c10::Storage y_bytes = Device::Get().OnHost(y.storage());
  return std::memcmp(BytesOf(x, x_bytes), BytesOf(y, y_bytes), x.nbytes()) == 0;
}

namespace {

bool WritesFirst(const TapeOp& op, int storage) {
  const auto& first = op.arguments[0].tensors;
  return op.arguments[0].written && !first.empty() &&
         first[0].storage == storage;
}

bool HasInputs(const Tape& tape, const TapeOp& op,
               const c10::Storage& preimage) {
  for (int i = 0; i < static_cast<int>(op.arguments.size()); ++i) {
    if (!ReadsArgument(op, i)) continue;
    for (const TensorArgument& t : op.arguments[i].tensors) {
      if (t.storage < 0 || (preimage && WritesFirst(op, t.storage))) continue;
      if (tape.storages[t.storage].identity.expired()) return false;
    }
  }
  return true;
}

Tensors RunFilled(const Tape& tape, const TapeOp& op,
                  const c10::Storage& preimage, uint8_t fill) {
  const ReplayScope scope;
  const AllocationFill filled(fill);
  return RunAgain(op, [&](int index) {
    const TapeStorage& storage = tape.storages[index];
    if (!WritesFirst(op, index)) {
      return c10::Storage(storage.identity.lock());
    }
    return preimage ? preimage
                    : Device::Get().Allocate(storage.bytes, storage.device);
  });
}

bool AllEqual(at::TensorList a, at::TensorList b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!BitwiseEqual(a[i], b[i])) return false;
  }
  return true;
}

// Outputs that lie alike in storages of the same size.
bool SameLayout(at::TensorList a, at::TensorList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return false;
    if (!a[i].defined()) continue;
    if (a[i].dtype() != b[i].dtype() || a[i].sizes() != b[i].sizes() ||
        a[i].strides() != b[i].strides() ||
        a[i].storage_offset() != b[i].storage_offset() ||
        a[i].is_conj() != b[i].is_conj() || a[i].is_neg() != b[i].is_neg() ||
        a[i].storage().nbytes() != b[i].storage().nbytes()) {
      return false;
    }
  }
  return true;
}

}  // namespace

Verifier::Result Verifier::Compare(const Tape& tape, const TapeOp& op,
                                   at::TensorList outputs,
                                   const c10::Storage& preimage) {
  if (!HasInputs(tape, op, preimage)) return {};
  // Another byte than the last times: blocks that they filled come back.
  const uint8_t fill = ++fill_;
  const uint8_t other_fill = ~fill;
  Tensors again = RunFilled(tape, op, preimage, fill);
  if (!SameLayout(outputs, again)) return {};
  if (AllEqual(outputs, again)) return {.repeats = true};
  // Gaps hold for the signature, which does not know the sizes of the outputs
  // of a dynamic op.
  if (op.info->mutates || op.info->dynamic) return {};
  std::vector<std::optional<GapSearch>> searches(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    searches[i].emplace(outputs[i].storage(), again[i].storage(), fill);
  }
  again.clear();
  again = RunFilled(tape, op, preimage, other_fill);
  if (!SameLayout(outputs, again)) return {};
  OutputGaps found(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!searches[i]) continue;
    auto gaps = searches[i]->Find(again[i].storage(), other_fill);
    if (!gaps) return {};
    found[i] = *std::move(gaps);
  }
  return {true, std::make_shared<const OutputGaps>(std::move(found))};
}

void Verifier::Try(const Tape& tape, const TapeOp& op, at::TensorList outputs,
                   const c10::Storage& preimage) {
  Result result;
  try {
    result = Insist([&] { return Compare(tape, op, outputs, preimage); });
  } catch (const c10::OutOfMemoryError&) {
    return;
  } catch (const std::exception&) {
    // An op that cannot be run again is kept, like one that differs.
  }
  Note(op, std::move(result));
}

}  // namespace ebbtide
