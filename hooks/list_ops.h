// Ops on lists of tensors (`_foreach_*`, fused optimizers), run in slices.
//
// One such op reads all it is given at once, which of parameters, gradients and
// moments is all there is. They work tensor by tensor, so calls on consecutive
// parts of the lists give the same bytes, and only one part has to be on the
// device at a time. A kernel of ours stands between autograd and the device's
// own (the dispatch key BackendSelect, which these ops do not use) and calls
// that once per slice.
//
// `_foreach_*` ops choose between one kernel for all tensors and ops on single
// ones by looking at the whole list, and those may differ in last bits.
// PyTorch's own test is asked: where it lets the one kernel have the whole, it
// lets it have every part. Where it does not, and where an op has no kernel of
// its own on the device, the op is a loop over ops on single tensors, which the
// observer sees, and nothing is held.
#ifndef EBBTIDE_HOOKS_LIST_OPS_H_
#define EBBTIDE_HOOKS_LIST_OPS_H_

#include <ATen/core/operator_name.h>

#include "hooks/weights.h"

namespace ebbtide {

// Takes over the list ops that torch has now. Once; `weights` lives for ever.
void InstallSlicedOps(Weights* weights);

// True if the op is one of them: it reports its slices to `weights` one by one.
bool IsSliced(const c10::OperatorName& op);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_LIST_OPS_H_
