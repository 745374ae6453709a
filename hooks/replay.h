// Recomputes a recorded op so that its bytes come out the same.
#ifndef EBBTIDE_HOOKS_REPLAY_H_
#define EBBTIDE_HOOKS_REPLAY_H_

#include <functional>
#include <vector>

#include "hooks/busy.h"
#include "hooks/tape.h"

namespace ebbtide {

// The thread state in which every recomputation runs: no autograd graph, below
// autocast, no foreign dispatch modes, ebbtide's busy flag set. One per
// recovery, not per op.
class ReplayScope {
 public:
  ReplayScope();

 private:
  Busy busy_;
  at::NoGradGuard no_grad_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard exclude_;
  at::RecordFunctionGuard no_record_{/*is_enabled=*/false};
};

// Outputs of an op.
using Tensors = c10::SmallVector<at::Tensor, 4>;

// The storage that holds the bytes of tape storage `index` for this run.
using StorageLookup = std::function<c10::Storage(int index)>;

// Recomputes `op` on the storages that `lookup` names and returns its outputs,
// flattened, undefined where an output is not a tensor. Arguments that the op
// writes are written in the storage that `lookup` gives, so that must be a
// private copy. The generator is as before afterwards. Throws what the op
// throws. Needs a ReplayScope.
Tensors RunAgain(const TapeOp& op, const StorageLookup& lookup);

// True where argument `index` must be known to run the op again: false for what
// it overwrites and for running statistics in training.
bool ReadsArgument(const TapeOp& op, int index);

// Tensors among `value` in the order in which the tape numbers outputs.
void AppendTensors(const c10::IValue& value, Tensors* tensors);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_REPLAY_H_
