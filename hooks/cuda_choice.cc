// Which device a library with CUDA manages: CUDA's where the machine has one
// and the budget is one for it.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hooks/cpu_device.h"
#include "hooks/cuda_device.h"

namespace ebbtide {
namespace {

// What is free cannot be known without a context.
Bytes ResolveOn(int index, const Amount& amount) {
  const Bytes total{static_cast<int64_t>(
      at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))
          ->totalGlobalMem)};
  return Resolve(amount, total, total);
}

std::vector<std::optional<Bytes>> BudgetsOf(const Settings& settings,
                                            int devices) {
  std::vector<std::optional<Bytes>> budgets(devices);
  for (const DeviceBudget& budget : settings.cuda_budgets) {
    const bool is_for_all = budget.device.empty() || budget.device == "cuda";
    for (int i = 0; i < devices; ++i) {
      const bool is_for_it = budget.device == absl::StrCat("cuda:", i);
      // What is said of one device goes before what is said of all.
      if (is_for_it || (is_for_all && !budgets[i])) {
        budgets[i] = ResolveOn(i, budget.amount);
      }
    }
  }
  return budgets;
}

}  // namespace

Device* ChooseDevice(Settings* settings) {
  const auto api = CudaApi::Loaded();
  const int devices = api.ok() ? c10::cuda::device_count() : 0;
  const auto budgets = BudgetsOf(*settings, devices);
  const auto least = std::find_if(budgets.begin(), budgets.end(),
                                  [](const auto& b) { return b.has_value(); });
  const bool only_recorded =
      settings->cuda_budgets.empty() && !settings->budget;
  if (devices == 0 || (least == budgets.end() && !only_recorded)) {
    static Device& cpu = *new CpuDevice;
    return &cpu;
  }
  settings->budget = least == budgets.end() ? std::nullopt : *least;
  static Device& cuda = *new CudaDevice(*api, budgets);
  return &cuda;
}

}  // namespace ebbtide
