// Interface of the runtime's stand-in for those of cuBLAS and cuBLASLt, which
// are libraries of their own and see only its exported functions.
#ifndef EBBTIDE_TESTS_CUDASIM_BLAS_H_
#define EBBTIDE_TESTS_CUDASIM_BLAS_H_

#include <cstdlib>

#include "tests/cudasim/control.h"

namespace cudasim {

constexpr double kOtherNs = 5000;

// Time of a product of m x k and k x n, `batch` times.
inline double ProductNs(double m, double n, double k, double batch = 1) {
  static const char* const given = getenv("CUDASIM_TFLOPS");
  static const double tflops = given != nullptr ? strtod(given, nullptr) : 100;
  constexpr double kStartNs = 3000;
  return kStartNs + 2 * m * n * k * batch / tflops / 1e3;
}

// Returns 0 or an error.
inline int QueueProduct(void* stream, const char* name, double ns) {
  const int error = cudasim_enter(name);
  if (error != 0) return error;
  const CudasimWork work{name, ns, nullptr, nullptr, nullptr, nullptr, 0};
  return cudasim_enqueue(stream, &work);
}

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_BLAS_H_
