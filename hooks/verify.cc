#include "hooks/verify.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "hooks/replay.h"

namespace ebbtide {

bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes() ||
      a.strides() != b.strides() || a.storage_offset() != b.storage_offset()) {
    return false;
  }
  const bool dense = a.is_non_overlapping_and_dense();
  const at::Tensor x = dense ? a : a.contiguous();
  const at::Tensor y = dense ? b : b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool Verifier::RunsEqual(const Tape& tape, const TapeOp& op,
                         const std::vector<at::Tensor>& outputs,
                         const c10::Storage& preimage) const {
  const ReplayScope scope;
  const auto lookup = [&](int index) {
    const TapeStorage& storage = tape.storages[index];
    const bool written = !op.arguments[0].tensors.empty() &&
                         op.arguments[0].written &&
                         op.arguments[0].tensors[0].storage == index;
    if (written && preimage) return preimage;
    if (written) {
      return c10::Storage(c10::Storage::use_byte_size_t(), storage.bytes,
                          c10::GetCPUAllocator(), /*resizable=*/true);
    }
    return c10::Storage(storage.identity.lock());
  };
  for (int i = 0; i < static_cast<int>(op.arguments.size()); ++i) {
    for (const TensorArgument& t : op.arguments[i].tensors) {
      if (t.storage >= 0 && ReadsArgument(op, i) && !lookup(t.storage)) {
        return false;
      }
    }
  }
  const std::vector<at::Tensor> again = RunAgain(op, lookup);
  if (again.size() != outputs.size()) return false;
  for (size_t i = 0; i < again.size(); ++i) {
    if (!BitwiseEqual(outputs[i], again[i])) return false;
    if (outputs[i].defined() &&
        outputs[i].storage().nbytes() != again[i].storage().nbytes()) {
      return false;
    }
  }
  return true;
}

void Verifier::Try(const Tape& tape, const TapeOp& op,
                   const std::vector<at::Tensor>& outputs,
                   const c10::Storage& preimage) {
  bool equal = false;
  try {
    equal = RunsEqual(tape, op, outputs, preimage);
  } catch (const std::exception&) {
    // An op that cannot be run again is kept, like one that differs.
  }
  results_[KeyOf(op)] = equal;
}

}  // namespace ebbtide
