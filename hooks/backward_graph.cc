#include "hooks/backward_graph.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <typeinfo>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace ebbtide {
namespace {

using torch::autograd::Node;

// By name: the classes of derivatives.yaml, which are not all exported.
bool IsOfPyTorch(const Node& node) {
  const std::type_info& type = typeid(node);
  return absl::StartsWith(type.name(), "N5torch8autograd9generated") ||
         type == typeid(torch::autograd::AccumulateGrad) ||
         type == typeid(torch::autograd::CopyBackwards) ||
         type == typeid(torch::autograd::CopySlices);
}

// DistributedDataParallel has one at each parameter, which copies its gradient
// into a bucket.
bool IsOfPyTorch(const torch::autograd::FunctionPostHook& hook) {
  return typeid(hook) == typeid(torch::autograd::utils::LambdaPostHook);
}

bool HasHooks(Node* node) {
  return !node->pre_hooks().empty() || !node->tensor_pre_hooks().empty() ||
         node->tensor_post_acc_grad_hooks() != nullptr ||
         !std::all_of(node->post_hooks().begin(), node->post_hooks().end(),
                      [](const auto& hook) { return IsOfPyTorch(*hook); });
}

}  // namespace

bool BackwardGraph::IsPlain(Node* node) {
  if (!visited_.insert(node).second) return true;
  std::vector<Node*> pending = {node};
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    if (!IsOfPyTorch(*next) || HasHooks(next)) return false;
    const auto visit = [&](Node* below) {
      if (below != nullptr && visited_.insert(below).second) {
        pending.push_back(below);
      }
    };
    for (const torch::autograd::Edge& edge : next->next_edges()) {
      visit(edge.function.get());
    }
    // The function of an in-place op on a view.
    if (const auto* copy = dynamic_cast<torch::autograd::CopySlices*>(next)) {
      visit(copy->fn.get());
    }
  }
  return true;
}

}  // namespace ebbtide
