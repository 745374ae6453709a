// Functions to put kernels of our own in the place of torch's kernels for the
// device, which exact mode (exact.h) and timed mode (timed.h) do.
#ifndef EBBTIDE_TESTS_CUDASIM_WRAPPED_KERNELS_H_
#define EBBTIDE_TESTS_CUDASIM_WRAPPED_KERNELS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cudasim {

using Values = c10::ArrayRef<c10::IValue>;

// The last values of the stack: an op's arguments before it runs, its results
// behind it.
inline Values Last(const torch::jit::Stack& stack, size_t count) {
  return Values(stack).slice(stack.size() - count);
}

// Calls the function for every tensor in the value.
template <typename Function>
void ForEachTensor(const c10::IValue& value, Function function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      if (t.defined()) function(t);
    }
  } else if (value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      ForEachTensor(element, function);
    }
  }
}

// Puts the kernel in the place of the op's kernel for the device, for good:
// other threads may be inside.
template <typename Kernel>
void Replace(const c10::OperatorHandle& op, std::unique_ptr<Kernel> kernel) {
  static auto* const wrapped = new std::vector<c10::RegistrationHandleRAII>;
  wrapped->push_back(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), c10::DispatchKey::CUDA,
      c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)),
      std::nullopt, nullptr, "cudasim"));
}

// Calls `wrap` for every operator. Torch's warnings about replaced kernels are
// not shown.
template <typename Wrap>
void WrapAll(Wrap wrap) {
  class Quiet : public c10::WarningHandler {
   public:
    void process(const c10::Warning&) override {}
  };
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (const auto op = dispatcher.findSchema(name)) wrap(*op);
  }
}

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_WRAPPED_KERNELS_H_
