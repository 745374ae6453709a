// ebbtide's set-up of CUDA: it installs the allocator of
// allocator/torch_cuda_allocator.h and gives each device its budget.
// libebbtide_cuda.so has it (cuda_start.cc); libebbtide.so, for a torch without
// CUDA, prints a line if a CUDA device was given a budget (without_cuda.cc).
#ifndef EBBTIDE_HOOKS_CUDA_START_H_
#define EBBTIDE_HOOKS_CUDA_START_H_

#include "hooks/report.h"
#include "hooks/settings.h"

namespace ebbtide {

// Once, when the rest has started. Initialises no CUDA, so that the program may
// still fork; a child of fork has no budgets. Settings that cannot be met are
// reported in one line: here, or when the program first uses the device.
void StartCuda(const Settings& settings);

// Budgets, peaks and planned addresses of the used devices, for the report.
// Thread-safe.
CudaReport ReportCuda();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_CUDA_START_H_
