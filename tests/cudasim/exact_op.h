// The treatment of an operator in exact mode.
#ifndef EBBTIDE_TESTS_CUDASIM_EXACT_OP_H_
#define EBBTIDE_TESTS_CUDASIM_EXACT_OP_H_

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>

namespace cudasim {

// Computes an op whose CPU kernel is missing or differs: takes the CPU
// arguments from the stack and leaves the results there. The generator is given
// where the op drew numbers.
using Rule = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                      const std::optional<at::Generator>& generator);

enum class Treatment {
  // Moves no bytes, or such as the simulator moves itself, or calls ops that
  // are
  // looked at each for itself.
  kNothing,
  kCompute,
  kRefuse,
};

struct OpInfo {
  c10::OperatorHandle op;
  std::string name;  // with the overload
  Treatment treatment = Treatment::kNothing;
  std::string refusal;         // why, where it is refused
  Rule rule = nullptr;         // null: the op's own CPU kernel
  bool transfer = false;       // copies between any two devices
  bool foreach = false;        // may be a loop over ops (IsLoop)
  bool dynamic_index = false;  // its shape depends on data if a mask indexes
  bool seeded = false;         // may draw random numbers
  int generator = -1;          // which argument is one
  // The overload that takes a generator more, and where.
  std::optional<c10::OperatorHandle> with_generator = std::nullopt;
  int inserted_generator = -1;

  // True if numbers can be drawn for it on the CPU.
  bool CanDraw() const {
    return rule != nullptr || generator >= 0 || with_generator.has_value();
  }
};

OpInfo InfoOf(const c10::OperatorHandle& op);

// True if the call is a loop over ops on single tensors, as PyTorch's
// `_foreach_` ops are for lists that their own kernels do not take: each of
// those is looked at for itself.
bool IsLoop(const OpInfo& info, c10::ArrayRef<c10::IValue> inputs);

// exact_rules.cc; null where the op's own CPU kernel serves.
Rule RuleFor(const std::string& name);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_EXACT_OP_H_
