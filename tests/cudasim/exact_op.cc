#include "tests/cudasim/exact_op.h"

#include <ATen/core/enum_tag.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace cudasim {
namespace {

const std::unordered_set<std::string_view>& OpsThatComputeNothing() {
  static const auto* const names = new std::unordered_set<std::string_view>{
      // Bytes that are not written yet.
      "aten::empty", "aten::empty_like", "aten::empty_strided",
      "aten::empty_permuted", "aten::new_empty", "aten::new_empty_strided",
      // The simulator's own copies.
      "aten::resize_", "aten::resize_as_", "aten::_resize_output_",
      "aten::_local_scalar_dense", "aten::_pin_memory",
      // Others' ops: an empty tensor and a copy.
      "aten::_to_copy",
      // Facts about a tensor.
      "aten::set_", "aten::record_stream", "aten::is_pinned"};
  return *names;
}

const std::unordered_set<std::string_view>& OpsThatIndex() {
  static const auto* const names = new std::unordered_set<std::string_view>{
      "aten::index",         "aten::index_put",
      "aten::index_put_",    "aten::_index_put_impl_",
      "aten::_unsafe_index", "aten::_unsafe_index_put"};
  return *names;
}

bool ReturnsTensors(const c10::FunctionSchema& schema) {
  return std::any_of(
      schema.returns().begin(), schema.returns().end(),
      [](const c10::Argument& r) {
        return r.type()->isSubtypeOf(*c10::TensorType::get()) ||
               r.type()->isSubtypeOf(*c10::ListType::ofTensors()) ||
               r.type()->isSubtypeOf(
                   *c10::OptionalType::create(c10::TensorType::get()));
      });
}

// Every tensor it returns shares the bytes of an argument.
bool IsView(const c10::FunctionSchema& schema) {
  return !schema.is_mutable() &&
         std::all_of(
             schema.returns().begin(), schema.returns().end(),
             [](const c10::Argument& r) { return r.alias_info() != nullptr; });
}

bool IsGenerator(const c10::Argument& argument) {
  return *argument.type() ==
             *c10::OptionalType::create(c10::GeneratorType::get()) ||
         *argument.type() == *c10::GeneratorType::get();
}

int GeneratorArgument(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const auto found =
      std::find_if(arguments.begin(), arguments.end(), IsGenerator);
  return found == arguments.end() ? -1
                                  : static_cast<int>(found - arguments.begin());
}

// "rand" and "rand.generator", "randint.low" and "randint.low_generator",
// "randint_like.low_dtype" and "randint_like.low_generator_dtype".
void FindGeneratorOverload(OpInfo* info) {
  const c10::OperatorName& name = info->op.operator_name();
  std::string overload = name.overload_name;
  const std::string dtype = "_dtype";
  if (overload.empty()) {
    overload = "generator";
  } else if (overload.ends_with(dtype)) {
    overload.insert(overload.size() - dtype.size(), "_generator");
  } else {
    overload += "_generator";
  }
  info->with_generator =
      c10::Dispatcher::singleton().findSchema({name.name, overload});
  if (info->with_generator) {
    info->inserted_generator =
        GeneratorArgument(info->with_generator->schema());
  }
}

void Refuse(OpInfo* info, const char* why) {
  info->treatment = Treatment::kRefuse;
  info->refusal = why;
}

void Treat(OpInfo* info) {
  const c10::OperatorHandle& op = info->op;
  const c10::FunctionSchema& schema = op.schema();
  const bool composite =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  const bool tensors = ReturnsTensors(schema);
  const bool nothing =
      composite || OpsThatComputeNothing().count(schema.name()) > 0 ||
      op.hasTag(at::Tag::inplace_view) || (tensors && IsView(schema));
  if (nothing) return;
  if (op.hasTag(at::Tag::data_dependent_output)) {
    Refuse(info, "it gives the host a value that depends on data");
  } else if (!tensors && !schema.is_mutable()) {
    info->treatment = Treatment::kNothing;
  } else if (op.hasTag(at::Tag::dynamic_output_shape) && !info->dynamic_index) {
    Refuse(info, "its shape depends on data");
  } else if (info->rule == nullptr &&
             !op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    Refuse(info, "it has no CPU kernel");
  } else {
    info->treatment = Treatment::kCompute;
  }
}

}  // namespace

OpInfo InfoOf(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  OpInfo info{.op = op, .name = c10::toString(op.operator_name())};
  info.rule = RuleFor(name);
  info.transfer = name == "aten::copy_";
  // Copies of lists have a test of their own.
  info.foreach = name.rfind("aten::_foreach_", 0) == 0 &&
                 name.rfind("aten::_foreach_copy", 0) != 0;
  info.dynamic_index = OpsThatIndex().count(name) > 0;
  info.seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  info.generator = GeneratorArgument(op.schema());
  if (info.generator < 0 && info.seeded) FindGeneratorOverload(&info);
  Treat(&info);
  return info;
}

bool IsLoop(const OpInfo& info, c10::ArrayRef<c10::IValue> inputs) {
  if (!info.foreach) return false;
  std::vector<std::vector<at::Tensor>> lists;
  for (const c10::IValue& input : inputs) {
    if (input.isTensorList()) lists.push_back(input.toTensorVector());
  }
  const std::vector<at::TensorList> all(lists.begin(), lists.end());
  return !lists.empty() && !lists[0].empty() &&
         !at::native::can_use_fast_route(all);
}

}  // namespace cudasim
