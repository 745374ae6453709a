#include "hooks/backward_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace ebbtide {
namespace {

using torch::autograd::Node;

at::Tensor Leaf() { return at::ones({4, 4}).set_requires_grad(true); }

bool IsPlain(const at::Tensor& tensor) {
  return BackwardGraph().IsPlain(tensor.grad_fn().get());
}

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext*,
                            const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*,
      const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

TEST(BackwardGraphTest, NodesOfPyTorchArePlain) {
  const at::Tensor w = Leaf();
  at::Tensor h = at::mm(w, w).relu();
  h.select(0, 1).mul_(2);  // CopySlices
  EXPECT_TRUE(IsPlain(at::softmax(h, 1).to(at::kDouble).sum()));
}

TEST(BackwardGraphTest, HookOfALeafIsNotPlain) {
  const at::Tensor w = Leaf();
  const at::Tensor loss = (w.sin() * 2).sum();
  EXPECT_TRUE(IsPlain(loss));
  w.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  EXPECT_FALSE(IsPlain(loss));
}

TEST(BackwardGraphTest, HookOfAnActivationIsNotPlain) {
  const at::Tensor h = Leaf().sin();
  h.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  EXPECT_FALSE(IsPlain(h.cos().sum()));
}

TEST(BackwardGraphTest, HookBehindAccumulationIsNotPlain) {
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    void operator()(const at::Tensor&) override {}
  };
  const at::Tensor w = Leaf();
  torch::autograd::impl::set_post_acc_grad_hooks(w, std::make_unique<Hook>());
  EXPECT_FALSE(IsPlain(w.sin().sum()));
}

TEST(BackwardGraphTest, FunctionOfTheProgramIsNotPlain) {
  EXPECT_FALSE(IsPlain(Twice::apply(Leaf().sin()).cos().sum()));
}

TEST(BackwardGraphTest, FunctionOnAViewIsNotPlain) {
  const at::Tensor h = Leaf().sin();
  h.select(0, 1).copy_(Twice::apply(Leaf()).select(0, 0));
  EXPECT_FALSE(IsPlain(h.sum()));
}

TEST(BackwardGraphTest, VisitedNodesAreVisitedAgainOnlyAfterClear) {
  const at::Tensor w = Leaf();
  const at::Tensor loss = w.sin().sum();
  BackwardGraph graph;
  EXPECT_TRUE(graph.IsPlain(loss.grad_fn().get()));
  w.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  EXPECT_TRUE(graph.IsPlain(loss.grad_fn().get()));
  graph.Clear();
  EXPECT_FALSE(graph.IsPlain(loss.grad_fn().get()));
}

}  // namespace
}  // namespace ebbtide
