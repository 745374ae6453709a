// Ops whose CPU kernel is missing or means something else.
#include <ATen/ATen.h>

#include <unordered_map>

#include "tests/cudasim/exact_op.h"

namespace cudasim {
namespace {

using torch::jit::Stack;
using Generator = std::optional<at::Generator>;

at::Tensor TensorOr(const c10::IValue& value, const at::Tensor& otherwise) {
  return value.isTensor() && value.toTensor().defined() ? value.toTensor()
                                                        : otherwise;
}

// The CPU's draws from the default generator, which is the program's.
void NativeDropout(const c10::OperatorHandle& op, Stack* stack,
                   const Generator& generator) {
  const at::Tensor input = stack->at(0).toTensor();
  const double p = stack->at(1).toDouble();
  if (!generator) {
    op.callBoxed(stack);
    return;
  }
  const at::Tensor mask =
      at::empty_like(input, input.options().dtype(at::kBool))
          .bernoulli_(1 - p, generator);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  *stack = {input.mul(mask).mul_(scale), mask};
}

// On CUDA a half softmax may be asked to answer in float.
template <int kHalfToFloat>
void Softmax(const c10::OperatorHandle& op, Stack* stack, const Generator&) {
  if (stack->at(kHalfToFloat).toBool()) {
    stack->at(0) = stack->at(0).toTensor().to(at::kFloat);
    stack->at(kHalfToFloat) = false;
  }
  op.callBoxed(stack);
}

// And its gradient to answer in half again.
void SoftmaxBackward(const c10::OperatorHandle& op, Stack* stack,
                     const Generator&) {
  const at::ScalarType wanted = stack->at(3).toScalarType();
  stack->at(3) = stack->at(0).toTensor().scalar_type();
  op.callBoxed(stack);
  stack->at(0) = stack->at(0).toTensor().to(wanted);
}

// The device keeps the statistics of half inputs in float. The CPU's kernels
// make them in the type of the weights and want them back so; the way through
// float loses no bit.
template <int kFirstStatistic, int kWeight>
void NormBackward(const c10::OperatorHandle& op, Stack* stack,
                  const Generator&) {
  const at::ScalarType type =
      TensorOr(stack->at(kWeight), stack->at(1).toTensor()).scalar_type();
  for (const int i : {kFirstStatistic, kFirstStatistic + 1}) {
    const at::Tensor statistic = TensorOr(stack->at(i), {});
    if (statistic.defined()) stack->at(i) = statistic.to(type);
  }
  op.callBoxed(stack);
}

// Where it does not train, the device gives out the running statistics that it
// used, and the CPU nothing.
void BatchNorm(const c10::OperatorHandle& op, Stack* stack, const Generator&) {
  const bool training = stack->at(5).toBool();
  const at::Tensor mean = TensorOr(stack->at(3), {});
  const at::Tensor variance = TensorOr(stack->at(4), {});
  const double epsilon = stack->at(7).toDouble();
  op.callBoxed(stack);
  if (training) return;
  stack->at(1) = mean;
  stack->at(2) = variance.add(epsilon).rsqrt();
}

// The products come without biases; the activated gates are kept for the
// backward pass.
void LstmCell(const c10::OperatorHandle&, Stack* stack, const Generator&) {
  const at::Tensor cell = stack->at(2).toTensor();
  at::Tensor gates = stack->at(1).toTensor().add(stack->at(0).toTensor());
  for (const int bias : {3, 4}) {
    const at::Tensor b = TensorOr(stack->at(bias), {});
    if (b.defined()) gates = gates.add(b);
  }
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid();
  const at::Tensor forget = parts[1].sigmoid();
  const at::Tensor candidate = parts[2].tanh();
  const at::Tensor out = parts[3].sigmoid();
  const at::Tensor next = forget.mul(cell).add_(in.mul(candidate));
  *stack = {out.mul(next.tanh()), next,
            at::cat({in, forget, candidate, out}, 1)};
}

void LstmCellBackward(const c10::OperatorHandle&, Stack* stack,
                      const Generator&) {
  const at::Tensor cell = stack->at(2).toTensor();
  const at::Tensor next = stack->at(3).toTensor();
  const at::Tensor grad_out = TensorOr(stack->at(0), at::zeros_like(next));
  const at::Tensor grad_next = TensorOr(stack->at(1), at::zeros_like(next));
  const auto parts = stack->at(4).toTensor().chunk(4, 1);
  const at::Tensor& in = parts[0];
  const at::Tensor& forget = parts[1];
  const at::Tensor& candidate = parts[2];
  const at::Tensor& out = parts[3];
  const at::Tensor squashed = next.tanh();
  const at::Tensor grad_cell =
      grad_out.mul(out).mul(1 - squashed.mul(squashed)).add(grad_next);
  const at::Tensor grad_gates =
      at::cat({grad_cell.mul(candidate).mul(in).mul(1 - in),
               grad_cell.mul(cell).mul(forget).mul(1 - forget),
               grad_cell.mul(in).mul(1 - candidate.mul(candidate)),
               grad_out.mul(squashed).mul(out).mul(1 - out)},
              1);
  const bool has_bias = stack->at(5).toBool();
  *stack = {grad_gates, grad_cell.mul(forget),
            has_bias ? grad_gates.sum(0) : at::Tensor()};
}

// The needs of the backward pass are in five columns: both gates, the
// candidate, the state, and the state's product with its bias.
void GruCell(const c10::OperatorHandle&, Stack* stack, const Generator&) {
  const at::Tensor state = stack->at(2).toTensor();
  at::Tensor in = stack->at(0).toTensor();
  at::Tensor hidden = stack->at(1).toTensor();
  const at::Tensor in_bias = TensorOr(stack->at(3), {});
  const at::Tensor hidden_bias = TensorOr(stack->at(4), {});
  if (in_bias.defined()) in = in.add(in_bias);
  if (hidden_bias.defined()) hidden = hidden.add(hidden_bias);
  const auto a = in.chunk(3, 1);
  const auto b = hidden.chunk(3, 1);
  const at::Tensor reset = a[0].add(b[0]).sigmoid();
  const at::Tensor update = a[1].add(b[1]).sigmoid();
  const at::Tensor candidate = a[2].add(reset.mul(b[2])).tanh();
  *stack = {candidate.add(update.mul(state.sub(candidate))),
            at::cat({reset, update, candidate, state, b[2]}, 1)};
}

void GruCellBackward(const c10::OperatorHandle&, Stack* stack,
                     const Generator&) {
  const at::Tensor grad = stack->at(0).toTensor();
  const auto parts = stack->at(1).toTensor().chunk(5, 1);
  const at::Tensor& reset = parts[0];
  const at::Tensor& update = parts[1];
  const at::Tensor& candidate = parts[2];
  const at::Tensor& state = parts[3];
  const at::Tensor grad_candidate =
      grad.mul(1 - update).mul(1 - candidate.mul(candidate));
  const at::Tensor grad_update =
      grad.mul(state.sub(candidate)).mul(1 - update).mul(update);
  const at::Tensor grad_reset =
      grad_candidate.mul(parts[4]).mul(1 - reset).mul(reset);
  const at::Tensor grad_in =
      at::cat({grad_reset, grad_update, grad_candidate}, 1);
  const at::Tensor grad_hidden =
      at::cat({grad_reset, grad_update, grad_candidate.mul(reset)}, 1);
  const bool has_bias = stack->at(2).toBool();
  *stack = {grad_in, grad_hidden, grad.mul(update),
            has_bias ? grad_in.sum(0) : at::Tensor(),
            has_bias ? grad_hidden.sum(0) : at::Tensor()};
}

}  // namespace

Rule RuleFor(const std::string& name) {
  static const auto* const rules = new std::unordered_map<std::string, Rule>{
      {"aten::native_dropout", NativeDropout},
      {"aten::_softmax", Softmax<2>},
      {"aten::_log_softmax", Softmax<2>},
      {"aten::_softmax_backward_data", SoftmaxBackward},
      {"aten::_log_softmax_backward_data", SoftmaxBackward},
      {"aten::native_layer_norm_backward", NormBackward<3, 5>},
      {"aten::native_group_norm_backward", NormBackward<2, 4>},
      {"aten::native_batch_norm_backward", NormBackward<5, 2>},
      {"aten::native_batch_norm", BatchNorm},
      {"aten::_thnn_fused_lstm_cell", LstmCell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", LstmCellBackward},
      {"aten::_thnn_fused_gru_cell", GruCell},
      {"aten::_thnn_fused_gru_cell_backward", GruCellBackward},
  };
  const auto found = rules->find(name);
  return found == rules->end() ? nullptr : found->second;
}

}  // namespace cudasim
