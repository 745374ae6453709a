// The time of a torch op on a device: from a table, or by a roofline of the
// device's rates for ops that are not in it.
#ifndef EBBTIDE_TESTS_CUDASIM_TIMED_OP_H_
#define EBBTIDE_TESTS_CUDASIM_TIMED_OP_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>

#include "tests/cudasim/wrapped_kernels.h"

namespace cudasim {

// Name and overload, then type and sizes of each tensor on a device, as in
// "addmm BFloat16[8] BFloat16[4,2] BFloat16[2,8]". A list has its number of
// tensors and of elements: "[3: Float 4096]".
std::string OpKey(const c10::OperatorHandle& op, Values inputs);

// Equal for equal keys; much faster.
uint64_t OpHash(const c10::OperatorHandle& op, Values inputs);

// A device's rates, per nanosecond.
struct Roof {
  double flops = 0;  // rate of bfloat16 products
  double bytes = 0;
};

// Nanoseconds by what the op reads, writes and multiplies. Without outputs,
// they are taken to be as large as the largest input.
double Roofline(const Roof& roof, const c10::OperatorHandle& op, Values inputs,
                Values outputs);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_TIMED_OP_H_
