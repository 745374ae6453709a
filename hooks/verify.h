// Finds out by experiment which ops give the same bytes when recomputed.
//
// Ops are verified one by one while they are recorded, each signature (op,
// shapes, strides, types, literals, grad mode, threads, settings) once: if
// every op of a recipe repeats its bytes on equal inputs, so does the recipe.
// The memory of a trial is filled before: fresh pages are zero, and an op that
// does not write all of its outputs would seem to repeat what it found
// (hooks/gaps.h).
#ifndef EBBTIDE_HOOKS_VERIFY_H_
#define EBBTIDE_HOOKS_VERIFY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hooks/digest.h"
#include "hooks/gaps.h"
#include "hooks/proofs.h"
#include "hooks/tape.h"

namespace ebbtide {

// How an output lies in its storage.
struct OutputLayout {
  at::ScalarType type = at::kByte;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  bool is_conj = false;
  bool is_neg = false;
  size_t bytes = 0;  // size of the storage

  friend bool operator==(const OutputLayout&, const OutputLayout&) = default;
};
// By output; nullopt for one that is no tensor.
using OutputLayouts = std::vector<std::optional<OutputLayout>>;

class Verifier {
 public:
  explicit Verifier(Proofs* proofs) : proofs_(*proofs) {}

  // True if this op's signature still has to be tried.
  bool IsUnknown(const TapeOp& op) const {
    if (op.info->opaque || awaited_.contains(op.signature)) return false;
    const auto result = results_.find(op.signature);
    return result == results_.end() || result->second.is_open;
  }

  // Runs `op`, which is about to run, and keeps checksums of its outputs
  // instead of them, with which Try then compares: where memory has no room for
  // its outputs twice. Nothing is kept where memory is refused. Never throws.
  void Rehearse(const Tape& tape, const TapeOp& op);
  // False for an op that writes an argument, or has differed: where it differs
  // is found beside its outputs. False as well where that has come to nothing.
  bool MayRehearse(const TapeOp& op) const {
    constexpr int kMost = 2;
    const auto rehearsals = rehearsals_.find(op.signature);
    return !op.info->mutates && !IsOpen(op) &&
           (rehearsals == rehearsals_.end() || rehearsals->second < kMost);
  }
  // Drops the checksums of an op that Try was not called for.
  void DropRehearsal() { rehearsal_.reset(); }
  // True if the last trial of the op's signature found no room.
  bool WasRefused(const TapeOp& op) const {
    return refused_.contains(op.signature);
  }

  // Runs `op` again beside `outputs`, which it has just produced, and notes the
  // result for its signature, once it is known (hooks/proofs.h). `preimage` is
  // a copy of its first argument's storage from before the op, where it writes
  // it. Where the memory for that is refused the signature stays unknown. Never
  // throws.
  void Try(const Tape& tape, const TapeOp& op, at::TensorList outputs,
           const c10::Storage& preimage);

  // Notes in the op what is known of it. False, and nothing noted, if nothing
  // is.
  bool Mark(TapeOp* op) const {
    auto result = results_.find(op->signature);
    if (result == results_.end() || result->second.is_open) return false;
    op->tried = true;
    op->verified = result->second.repeats;
    op->gaps = result->second.gaps;
    return true;
  }

  // The op of that signature was later seen to differ: never recompute it
  // again.
  void Refuse(uint64_t signature) { Note(signature, {}); }

  // Grows with every result: while it stays, all answers do.
  int64_t results() const { return noted_; }

 private:
  struct Result {
    bool repeats = false;
    bool is_open = false;  // it has differed; there may be gaps
    std::shared_ptr<const OutputGaps> gaps;
  };
  struct Rehearsal {
    uint64_t signature = 0;
    OutputLayouts layouts;
    std::vector<Digest> outputs;  // digests of the outputs that are tensors
  };
  void Compare(const Tape& tape, const TapeOp& op, at::TensorList outputs,
               const c10::Storage& preimage);
  void CompareWithRehearsal(const TapeOp& op, at::TensorList outputs,
                            const Rehearsal& rehearsal);
  // Notes if the pairs differ, at once or later.
  void NoteCompared(const TapeOp& op, const std::vector<BytePair>& pairs);
  bool IsOpen(const TapeOp& op) const {
    const auto result = results_.find(op.signature);
    return result != results_.end() && result->second.is_open;
  }

  void Note(uint64_t signature, Result result) {
    // The number of shapes is unbounded. Ops that repeat can be verified anew;
    // an op that does not must not be forgotten, for it might repeat by luck.
    if (results_.size() >= most_) {
      absl::erase_if(results_,
                     [](const auto& entry) { return entry.second.repeats; });
      most_ = std::max(kMost, 2 * results_.size());
    }
    results_[signature] = std::move(result);
    ++noted_;
  }

  static constexpr size_t kMost = 1 << 16;

  Proofs& proofs_;
  absl::flat_hash_map<uint64_t, Result> results_;
  absl::flat_hash_set<uint64_t> awaited_;          // signatures
  absl::flat_hash_set<uint64_t> refused_;          // signatures
  absl::flat_hash_map<uint64_t, int> rehearsals_;  // by signature
  std::optional<Rehearsal> rehearsal_;             // rehearsal of the running
                                                   // op
  size_t most_ = kMost;
  int64_t noted_ = 0;
  uint8_t fill_ = 0;  // fill byte of the last trial
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_VERIFY_H_
