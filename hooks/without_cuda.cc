#include <algorithm>
#include <cstdio>

#include "hooks/cuda_start.h"

namespace ebbtide {

void StartCuda(const Settings& settings) {
  const bool named = std::any_of(
      settings.cuda_budgets.begin(), settings.cuda_budgets.end(),
      [](const DeviceBudget& each) { return !each.device.empty(); });
  if (named && settings.log != Settings::Log::kOff) {
    std::fputs("ebbtide: this torch has no CUDA: its budgets are not used\n",
               stderr);
  }
}

CudaReport ReportCuda() { return {}; }

}  // namespace ebbtide
