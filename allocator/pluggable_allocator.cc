#include "allocator/pluggable_allocator.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"
#include "allocator/ledger.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr int kMaxDevices = 128;  // PyTorch has 120 at most
// Granularity of the device's allocations.
constexpr int64_t kRounding = 512;

struct DeviceState {
  std::once_flag has_budget;
  Ledger ledger;
};

std::array<DeviceState, kMaxDevices>& States() {
  static auto& states = *new std::array<DeviceState, kMaxDevices>;
  return states;
}

Bytes Rounded(size_t size) {
  const auto count = static_cast<int64_t>(size);
  return Bytes{(count + kRounding - 1) / kRounding * kRounding};
}

void Say(const std::string& line) {
  const char* log = std::getenv("EBBTIDE_LOG");
  if (log != nullptr && std::string_view(log) == "off") return;
  std::fprintf(stderr, "ebbtide: %s\n", line.c_str());
}

const CudaApi& Api() {
  const auto api = CudaApi::Loaded();
  if (!api.ok()) throw std::runtime_error(std::string(api.status().message()));
  return **api;
}

void SayPeaks() {
  for (int device = 0; device < kMaxDevices; ++device) {
    const Ledger& ledger = States()[device].ledger;
    if (ledger.RunPeak() == Bytes{0}) continue;
    Say(absl::StrCat("cuda:", device, ": peak ", FormatSize(ledger.RunPeak()),
                     ledger.budget() == kNoBudget
                         ? std::string(", no budget")
                         : absl::StrCat(" of ", FormatSize(ledger.budget()))));
  }
}

// Before the first block on the device.
void SetBudget(int device, Ledger* ledger) {
  static const int registered = std::atexit(&SayPeaks);
  static_cast<void>(registered);
  const char* text = std::getenv("EBBTIDE_BUDGET");
  if (text == nullptr) return;
  const auto budgets = ParseBudget(text);
  if (!budgets.ok()) {
    Say(absl::StrCat("no budget: EBBTIDE_BUDGET=", text, ": ",
                     budgets.status().message()));
    return;
  }
  const Amount* const amount = AmountForCuda(*budgets, device);
  if (amount == nullptr) return;
  size_t free = 0;
  size_t total = 0;
  const absl::Status known =
      CudaStatus(Api(), Api().mem_get_info(&free, &total), "cudaMemGetInfo");
  if (!known.ok()) throw std::runtime_error(std::string(known.message()));
  ledger->SetBudget(Resolve(*amount, Bytes{static_cast<int64_t>(total)},
                            Bytes{static_cast<int64_t>(free)}));
}

[[noreturn]] void ThrowOutOfMemory(Bytes wanted, int device,
                                   const std::string& why) {
  throw std::runtime_error(
      absl::StrCat("CUDA out of memory. Tried to allocate ", FormatSize(wanted),
                   " on cuda:", device, ". ebbtide: ", why,
                   "; alive: ", FormatSize(States()[device].ledger.live())));
}

}  // namespace
}  // namespace ebbtide

extern "C" {

void* ebbtide_alloc(size_t size, int device, cudaStream_t /*stream*/) {
  using namespace ebbtide;  // NOLINT(google-build-using-namespace)
  if (size == 0) return nullptr;
  DeviceState& state = States().at(device);
  std::call_once(state.has_budget, SetBudget, device, &state.ledger);
  const Bytes taken = Rounded(size);
  if (!state.ledger.TryTake(taken)) {
    ThrowOutOfMemory(
        taken, device,
        absl::StrCat("the budget is ", FormatSize(state.ledger.budget())));
  }
  void* block = nullptr;
  const absl::Status done =
      CudaStatus(Api(), Api().malloc(&block, size), "cudaMalloc");
  if (!done.ok()) {
    state.ledger.Give(taken);
    ThrowOutOfMemory(taken, device, std::string(done.message()));
  }
  return block;
}

void ebbtide_free(void* block, size_t size, int device,
                  cudaStream_t /*stream*/) {
  using namespace ebbtide;  // NOLINT(google-build-using-namespace)
  if (block == nullptr) return;
  const CudaApi& api = Api();
  // The context may be gone at the end of the process, and the block with it.
  CudaStatus(api, api.free(block), "cudaFree").IgnoreError();
  States().at(device).ledger.Give(Rounded(size));
}

int64_t ebbtide_live(int device) {
  return ebbtide::Count(ebbtide::States().at(device).ledger.live());
}

int64_t ebbtide_peak(int device) {
  return ebbtide::Count(ebbtide::States().at(device).ledger.RunPeak());
}

}  // extern "C"
