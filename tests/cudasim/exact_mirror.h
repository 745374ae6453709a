// An op of the device with all that its computation on the CPU needs.
#ifndef EBBTIDE_TESTS_CUDASIM_EXACT_MIRROR_H_
#define EBBTIDE_TESTS_CUDASIM_EXACT_MIRROR_H_

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/cudasim/exact_image.h"
#include "tests/cudasim/exact_op.h"

namespace cudasim {

// An argument or result: a value, or the images of its tensors.
struct Argument {
  enum class Kind { kValue, kTensor, kTensors, kOptionalTensors };
  Kind kind = Kind::kValue;
  c10::IValue value;
  Images images;
  bool written = false;
};

// Reads an argument; host bytes are copied if `with_bytes`.
Argument ArgumentOf(const c10::IValue& value, bool with_bytes);

struct Mirror {
  const OpInfo* info;
  std::vector<Argument> arguments;
  // The tensors that the op made; what it wrote in place is an argument.
  std::vector<Argument> results;
  std::vector<bool> fresh;  // which results were made
  bool grad_mode;           // some kernels choose by it
  // Where the op drew numbers: from what state of the device's generator.
  std::optional<uint64_t> seed;

  // All bytes it reads and writes.
  std::vector<CudasimAccess> Accesses() const;
  // Computes and writes. Throws what the CPU kernel throws. May run repeatedly.
  void Run() const;

 private:
  torch::jit::Stack CpuArguments(Canvas* canvas) const;
  void Call(torch::jit::Stack* stack) const;
  // The device may make gradients that are not needed.
  bool Wanted(size_t result) const;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_EXACT_MIRROR_H_
