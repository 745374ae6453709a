// The nodes of the autograd graph below those that a backward pass has come to.
//
// PyTorch packs up the arguments of each op for the recorder, some 2,000
// instructions an op, and most ops of a step are those of its backward pass.
// The recorder needs only writes there, to what recipes read. A pass of nodes
// that are all PyTorch's own, without hooks, writes gradients and memory of its
// own, so it goes unobserved.
#ifndef EBBTIDE_HOOKS_BACKWARD_GRAPH_H_
#define EBBTIDE_HOOKS_BACKWARD_GRAPH_H_

#include "absl/container/flat_hash_set.h"
#include "hooks/autograd_node.h"

namespace ebbtide {

// Not thread-safe: used under the runtime's lock.
class BackwardGraph {
 public:
  // True if neither `node` nor a node below it runs code of the program: a
  // function that is not PyTorch's, or a hook. Visits each node once until
  // Clear; nodes must live until then.
  bool IsPlain(torch::autograd::Node* node);
  void Clear() { visited_.clear(); }

 private:
  absl::flat_hash_set<const torch::autograd::Node*> visited_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_BACKWARD_GRAPH_H_
