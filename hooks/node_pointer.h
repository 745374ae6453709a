// How nodes of the autograd graph are owned: by std::shared_ptr in torch 2.11,
// by pointers of PyTorch's own in 2.15.
#ifndef EBBTIDE_HOOKS_NODE_POINTER_H_
#define EBBTIDE_HOOKS_NODE_POINTER_H_

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

namespace ebbtide {

using NodePointer = decltype(torch::autograd::Edge::function);

inline std::weak_ptr<torch::autograd::Node> WeakOf(
    const std::shared_ptr<torch::autograd::Node>& node) {
  return node;
}
template <typename Node>
c10::weak_intrusive_ptr<Node> WeakOf(const c10::intrusive_ptr<Node>& node) {
  return c10::weak_intrusive_ptr<Node>(node);
}

using WeakNodePointer = decltype(WeakOf(NodePointer()));

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_NODE_POINTER_H_
