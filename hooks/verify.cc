#include "hooks/verify.h"

#include <algorithm>
#include <utility>

#include "allocator/allocation_kind.h"
#include "hooks/device.h"
#include "hooks/insist.h"
#include "hooks/replay.h"

namespace ebbtide {

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

OutputLayouts LayoutsOf(at::TensorList tensors) {
  OutputLayouts layouts;
  for (const at::Tensor& t : tensors) {
    if (!t.defined()) {
      layouts.emplace_back();
      continue;
    }
    layouts.push_back({{.type = t.scalar_type(),
                        .sizes = t.sizes().vec(),
                        .strides = t.strides().vec(),
                        .offset = t.storage_offset(),
                        .is_conj = t.is_conj(),
                        .is_neg = t.is_neg(),
                        .bytes = t.storage().nbytes()}});
  }
  return layouts;
}

ByteRange Elements(const at::Tensor& tensor) {
  const at::Tensor dense =
      tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return {dense.storage(), dense.storage_offset() * dense.itemsize(),
          dense.nbytes()};
}

bool MayHaveGaps(const TapeOp& op) {
  return !op.info->mutates && !op.info->dynamic;
}

// A pair for each two tensors, which lie alike.
std::vector<BytePair> Elements(at::TensorList a, at::TensorList b) {
  const ReplayScope scope;
  std::vector<BytePair> pairs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined()) pairs.emplace_back(Elements(a[i]), Elements(b[i]));
  }
  return pairs;
}

// Searches an op that has differed. Nullopt: not even outside gaps it repeats.
// Gaps hold for the signature, which does not know the sizes of the outputs of
// a dynamic op. `again`: what it has left in memory filled with `fill`.
std::optional<OutputGaps> FindGaps(const Tape& tape, const TapeOp& op,
                                   at::TensorList outputs,
                                   const c10::Storage& preimage, Tensors again,
                                   uint8_t fill) {
  std::vector<std::optional<GapSearch>> searches(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    searches[i].emplace(outputs[i].storage(), again[i].storage(), fill);
  }
  again.clear();
  const uint8_t other_fill = ~fill;
  again = RunFilled(tape, op, preimage, other_fill);
  if (LayoutsOf(outputs) != LayoutsOf(again)) return std::nullopt;
  OutputGaps found(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!searches[i]) continue;
    auto gaps = searches[i]->Find(again[i].storage(), other_fill);
    if (!gaps) return std::nullopt;
    found[i] = *std::move(gaps);
  }
  // Without any, what differed before was written.
  const bool has_gaps = std::any_of(found.begin(), found.end(),
                                    [](const Gaps& g) { return !g.empty(); });
  return has_gaps ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

void Verifier::NoteCompared(const TapeOp& op,
                            const std::vector<BytePair>& pairs) {
  const uint64_t signature = op.signature;
  const bool may_have_gaps = MayHaveGaps(op);
  const bool is_awaited =
      proofs_.Compare(pairs, [=, this](std::optional<bool> are_equal) {
        awaited_.erase(signature);
        if (!are_equal) return;
        Note(signature,
             {.repeats = *are_equal, .is_open = !*are_equal && may_have_gaps});
      });
  if (is_awaited) awaited_.insert(signature);
}

void Verifier::Compare(const Tape& tape, const TapeOp& op,
                       at::TensorList outputs, const c10::Storage& preimage) {
  if (!HasInputs(tape, op, preimage)) return Note(op.signature, {});
  // Another byte than the last times: blocks that they filled come back.
  const uint8_t fill = ++fill_;
  Tensors again = RunFilled(tape, op, preimage, fill);
  if (LayoutsOf(outputs) != LayoutsOf(again)) return Note(op.signature, {});
  if (!IsOpen(op)) NoteCompared(op, Elements(outputs, again));
  if (!IsOpen(op)) return;
  auto gaps = FindGaps(tape, op, outputs, preimage, std::move(again), fill);
  if (!gaps) return Note(op.signature, {});
  Note(op.signature,
       {.repeats = true,
        .gaps = std::make_shared<const OutputGaps>(*std::move(gaps))});
}

void Verifier::Rehearse(const Tape& tape, const TapeOp& op) {
  rehearsal_.reset();
  ++rehearsals_[op.signature];
  if (!HasInputs(tape, op, c10::Storage())) return;
  try {
    Insist([&] {
      const Tensors outputs = RunFilled(tape, op, c10::Storage(), ++fill_);
      Rehearsal done = {.signature = op.signature,
                        .layouts = LayoutsOf(outputs)};
      for (const at::Tensor& output : outputs) {
        if (!output.defined()) continue;
        const auto digest = DigestInPlace(output.storage());
        if (!digest) return;
        done.outputs.push_back(*digest);
      }
      rehearsal_ = std::move(done);
    });
  } catch (const std::exception&) {
    rehearsal_.reset();  // Try says why
  }
}

void Verifier::CompareWithRehearsal(const TapeOp& op, at::TensorList outputs,
                                    const Rehearsal& rehearsal) {
  if (rehearsal.layouts != LayoutsOf(outputs)) return Note(op.signature, {});
  std::vector<Digest> now;
  std::vector<BytePair> on_device;
  bool are_equal = true;
  auto before = rehearsal.outputs.begin();
  for (const at::Tensor& output : outputs) {
    if (!output.defined()) continue;
    now.push_back(DigestLike(*before, output.storage()));
    if (before->is_on_device()) {
      on_device.emplace_back(now.back().Place(), before->Place());
    } else {
      are_equal = are_equal && now.back().Value() == before->Value();
    }
    ++before;
  }
  if (!are_equal) return Note(op.signature, {.is_open = MayHaveGaps(op)});
  NoteCompared(op, on_device);
}

void Verifier::Try(const Tape& tape, const TapeOp& op, at::TensorList outputs,
                   const c10::Storage& preimage) {
  const auto rehearsal = std::exchange(rehearsal_, std::nullopt);
  try {
    Insist([&] {
      if (rehearsal && rehearsal->signature == op.signature) {
        CompareWithRehearsal(op, outputs, *rehearsal);
      } else {
        Compare(tape, op, outputs, preimage);
      }
    });
    refused_.erase(op.signature);
  } catch (const c10::OutOfMemoryError&) {
    refused_.insert(op.signature);  // and unknown
  } catch (const std::exception&) {
    // An op that cannot be recomputed is kept, like one that differs.
    Note(op.signature, {});
  }
}

}  // namespace ebbtide
