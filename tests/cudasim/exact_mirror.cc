#include "tests/cudasim/exact_mirror.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <utility>

namespace cudasim {
namespace {

std::optional<Image> OptionalImage(const c10::IValue& value, bool with_bytes) {
  if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
  const at::Tensor& tensor = value.toTensor();
  return with_bytes ? ImageWithBytes(tensor) : ImageOf(tensor);
}

at::Tensor TensorOf(const std::optional<Image>& image, Canvas* canvas) {
  return image ? canvas->TensorFor(*image) : at::Tensor();
}

c10::IValue ValueOf(const Argument& argument, Canvas* canvas) {
  switch (argument.kind) {
    case Argument::Kind::kValue:
      break;
    case Argument::Kind::kTensor:
      return TensorOf(argument.images[0], canvas);
    case Argument::Kind::kTensors: {
      c10::List<at::Tensor> list;
      for (const auto& image : argument.images) {
        list.push_back(TensorOf(image, canvas));
      }
      return list;
    }
    case Argument::Kind::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& image : argument.images) {
        list.push_back(image ? std::make_optional(canvas->TensorFor(*image))
                             : std::nullopt);
      }
      return list;
    }
  }
  if (argument.value.isDevice()) return c10::Device(at::kCPU);
  // A generator of the device; what the op drew comes from a CPU one.
  if (argument.value.isGenerator()) return c10::IValue();
  return argument.value;
}

std::vector<at::Tensor> TensorsOf(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  return {};
}

// Writes where the op's result lies what the CPU computed.
void Write(const std::optional<Image>& to, const at::Tensor& from,
           Canvas* canvas) {
  if (!to) return;
  at::Tensor out = canvas->TensorFor(*to);
  if (out.numel() == 0) return;
  TORCH_CHECK(from.defined(), "the CPU does not compute all of its results");
  TORCH_CHECK(out.sizes() == from.sizes(), "its result has sizes ", out.sizes(),
              " on the device and ", from.sizes(), " on the CPU");
  const bool same_kind = out.scalar_type() == from.scalar_type() ||
                         (out.is_floating_point() && from.is_floating_point());
  TORCH_CHECK(same_kind, "its result is of ", out.scalar_type(),
              " on the device and of ", from.scalar_type(), " on the CPU");
  if (out.data_ptr() != from.data_ptr()) out.copy_(from);
}

}  // namespace

Argument ArgumentOf(const c10::IValue& value, bool with_bytes) {
  Argument argument;
  if (value.isTensor()) {
    argument.kind = Argument::Kind::kTensor;
    argument.images.push_back(OptionalImage(value, with_bytes));
  } else if (value.isTensorList()) {
    argument.kind = Argument::Kind::kTensors;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      argument.images.push_back(OptionalImage(tensor, with_bytes));
    }
  } else if (value.isOptionalTensorList()) {
    argument.kind = Argument::Kind::kOptionalTensors;
    for (const c10::IValue& element : value.toListRef()) {
      argument.images.push_back(OptionalImage(element, with_bytes));
    }
  } else {
    argument.value = value;
  }
  return argument;
}

std::vector<CudasimAccess> Mirror::Accesses() const {
  std::vector<CudasimAccess> accesses;
  const auto add = [&](const Argument& argument, bool write) {
    for (const auto& image : argument.images) {
      if (image && !image->copied) accesses.push_back(AccessOf(*image, write));
    }
  };
  for (const Argument& argument : arguments) add(argument, argument.written);
  for (size_t i = 0; i < results.size(); ++i) {
    if (fresh[i]) add(results[i], true);
  }
  return accesses;
}

void Mirror::Run() const {
  const at::AutoGradMode mode(grad_mode);
  Canvas canvas;
  torch::jit::Stack stack = CpuArguments(&canvas);
  Call(&stack);
  TORCH_CHECK(stack.size() == results.size(),
              "the CPU computes another number of results");
  for (size_t i = 0; i < results.size(); ++i) {
    if (!fresh[i] || !Wanted(i)) continue;
    const std::vector<at::Tensor> computed = TensorsOf(stack[i]);
    const Images& images = results[i].images;
    TORCH_CHECK(computed.size() == images.size() || images.empty(),
                "the CPU computes another number of results");
    for (size_t k = 0; k < images.size(); ++k) {
      Write(images[k], computed[k], &canvas);
    }
  }
}

bool Mirror::Wanted(size_t result) const {
  const auto& schema = info->op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema[i].name() != "output_mask") continue;
    const auto mask = arguments[i].value.toBoolList();
    return result >= mask.size() || mask[result];
  }
  return true;
}

torch::jit::Stack Mirror::CpuArguments(Canvas* canvas) const {
  torch::jit::Stack stack;
  const auto& schema = info->op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    // Pinning is the device's business, and this may run inside of it.
    const bool pin = schema[i].name() == "pin_memory";
    stack.push_back(pin ? c10::IValue() : ValueOf(arguments[i], canvas));
  }
  return stack;
}

void Mirror::Call(torch::jit::Stack* stack) const {
  std::optional<at::Generator> generator;
  if (seed) generator = at::detail::createCPUGenerator(*seed);
  if (info->rule != nullptr) {
    info->rule(info->op, stack, generator);
    return;
  }
  if (!generator) {
    info->op.callBoxed(stack);
  } else if (info->generator >= 0) {
    stack->at(info->generator) = *generator;
    info->op.callBoxed(stack);
  } else {
    stack->insert(stack->begin() + info->inserted_generator, *generator);
    info->with_generator->callBoxed(stack);
  }
}

}  // namespace cudasim
