// Observer of all ops that passes their inputs to Weights: they are restored
// before the kernel runs and pinned until it has ended. It sees ops of all
// depths, threads and modes, also those of the backward pass and of
// recomputation. List ops are left to their slices (hooks/list_ops.h).
#ifndef EBBTIDE_HOOKS_WEIGHTS_OBSERVER_H_
#define EBBTIDE_HOOKS_WEIGHTS_OBSERVER_H_

#include "hooks/weights.h"

namespace ebbtide {

// `weights` must live for ever. Once, and before the recorder is enabled, which
// reads the arguments of ops as well: observers are asked in that order.
void InstallWeightObserver(Weights* weights);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_WEIGHTS_OBSERVER_H_
