// Differences between versions of torch in nodes of the autograd graph: their
// ownership (std::shared_ptr in 2.11, PyTorch's own pointers in 2.15) and their
// names in errors.
#ifndef EBBTIDE_HOOKS_AUTOGRAD_NODE_H_
#define EBBTIDE_HOOKS_AUTOGRAD_NODE_H_

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>

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

// PyTorch's errors name what has made a variable by its forward op ("Exp")
// since 2.15, by its node ("ExpBackward0") before.
template <typename Node>
inline constexpr bool kNamesForwardOps = requires(const Node& node) {
  node.forward_op_name();
};

template <typename Node>
std::string NameInErrors(const Node& node) {
  if constexpr (kNamesForwardOps<Node>) return node.forward_op_name();
  return node.name();
}

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_AUTOGRAD_NODE_H_
