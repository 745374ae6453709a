// Times, in batches of 64, of requests and releases by PyTorch's CUDA allocator
// on the simulated device: its own, and ebbtide's arena below a budget.
//
//   arena_device_speed MODE BATCHES     MODE: native, demand, planned
//
// prints as arena_speed.cc does.
//
//   arena_device_speed MODE BATCHES count
//
// does all of it twice, for callgrind with --collect-atstart=no: first only
// requests are counted, then only releases, with a dump of each. It prints the
// calls of the device in all of it, by function, as one JSON object. Warm-up is
// neither timed nor counted.
#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdlib>
#include <map>
#include <string>

#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_device_arena.h"
#include "bench/arena_steps.h"
#include "tests/cudasim/control.h"

namespace ebbtide {
namespace {

constexpr int kStepsBefore = 12;  // a plan serves after fewer
constexpr c10::DeviceIndex kDevice = 0;
constexpr Bytes kBudget{512 << 20};

struct DeviceCalls {
  c10::Allocator& allocator;
  const std::string& mode;

  void BeginStep() const {
    if (mode != "native") {
      DeviceArena* const arena = CudaAllocator::ArenaOf(kDevice);
      if (arena != nullptr) arena->BeginStep(mode == "planned" ? 1 : 0);
    }
  }
  c10::DataPtr Allocate(int64_t size) const { return allocator.allocate(size); }
  void Free(c10::DataPtr&& block) const { block.clear(); }
};

void PrintCalls() {
  std::map<std::string, int> calls;
  for (size_t n = 0; const char* call = cudasim_traced(n); ++n) {
    const std::string all(call);
    ++calls[all.substr(0, all.find(' '))];
  }
  const char* separator = "{";
  for (const auto& [call, times] : calls) {
    std::printf("%s\"%s\": %d", separator, call.c_str(), times);
    separator = ", ";
  }
  std::printf(calls.empty() ? "{}\n" : "}\n");
}

// Counts all steps but those that warm up.
void Count(const Step& step, const DeviceCalls& calls, int batches) {
  cudasim_trace_calls();
  for (const bool requests : {true, false}) {
    Clock allocating(requests);
    Clock freeing(!requests);
    RunSteps(step, calls, batches, &allocating, &freeing);
    CALLGRIND_DUMP_STATS_AT(requests ? "allocate" : "free");
  }
  PrintCalls();
}

int64_t Planned() {
  const DeviceArena* const arena = CudaAllocator::ArenaOf(kDevice);
  return arena == nullptr ? 0 : arena->facts().pages.counts.planned;
}

int Run(const std::string& mode, int batches, bool is_counted) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  if (mode != "native") {
    if (!CudaAllocator::Install({}).ok()) return 1;
    CudaAllocator::SetBudget(kDevice, kBudget);
  }
  const DeviceCalls calls{*c10::GetAllocator(c10::DeviceType::CUDA), mode};
  const Step step = RandomStep();
  Clock allocating(false);
  Clock freeing(false);
  RunSteps(step, calls, kStepsBefore * kBatchesOfStep, &allocating, &freeing);
  allocating = freeing = Clock(false);
  const int64_t before = Planned();
  if (is_counted) {
    Count(step, calls, batches);
  } else {
    RunSteps(step, calls, batches, &allocating, &freeing);
    Print(&allocating, &freeing);
  }
  const int64_t requests = (is_counted ? 2 : 1) * batches * kBatch;
  return Planned() - before == (mode == "planned" ? requests : 0) ? 0 : 1;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return ebbtide::Run(argv[1], std::atoi(argv[2]), argc > 3);
}
