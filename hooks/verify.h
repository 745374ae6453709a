// Finds out by experiment which ops give the same bytes when run again.
//
// Ops are verified one by one while they are recorded, each signature (op,
// shapes, strides, types, scalars, grad mode, threads, settings) once: if every
// op of a recipe repeats its bytes on equal inputs, so does the recipe.
#ifndef EBBTIDE_HOOKS_VERIFY_H_
#define EBBTIDE_HOOKS_VERIFY_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "hooks/tape.h"

namespace ebbtide {

// Equal type, sizes, strides, offset and element bytes.
bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b);

class Verifier {
 public:
  // Whether this op's signature still has to be tried.
  bool IsUnknown(const TapeOp& op) const {
    return !op.info->opaque && !results_.contains(KeyOf(op));
  }

  // Runs `op` again beside `outputs`, which it has just produced, and notes the
  // result for its signature. `preimage` is a copy of its first argument's
  // storage from before the op, where it writes it. Never throws.
  void Try(const Tape& tape, const TapeOp& op,
           const std::vector<at::Tensor>& outputs,
           const c10::Storage& preimage);

  // What is known of the op: false for an unknown signature.
  bool IsVerified(const TapeOp& op) const {
    auto result = results_.find(KeyOf(op));
    return result != results_.end() && result->second;
  }

  // The op was seen to differ later on: never replay it again.
  void Refuse(const TapeOp& op) { results_[KeyOf(op)] = false; }

 private:
  static uint64_t KeyOf(const TapeOp& op) {
    return absl::HashOf(op.signature, op.offsets);
  }
  bool RunsEqual(const Tape& tape, const TapeOp& op,
                 const std::vector<at::Tensor>& outputs,
                 const c10::Storage& preimage) const;

  absl::flat_hash_map<uint64_t, bool> results_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_VERIFY_H_
