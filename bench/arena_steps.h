// Steps of some batches of requests and releases, timed, or counted by
// callgrind, for the programs of `./dev bench arena`.
#ifndef EBBTIDE_BENCH_ARENA_STEPS_H_
#define EBBTIDE_BENCH_ARENA_STEPS_H_

#include <valgrind/callgrind.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "allocator/arena/step_trace.h"

namespace ebbtide {

inline constexpr int kBatch = 64;
inline constexpr int kSeed = 10;
inline constexpr int kBatchesOfStep = 32;

inline int64_t SizeOf(std::mt19937_64* random) {
  return 512 << (*random)() % 12;  // to 1 MiB
}

class Clock {
 public:
  explicit Clock(bool is_counted) : is_counted_(is_counted) {}
  template <typename Batch>
  void Time(Batch batch) {
    if (is_counted_) CALLGRIND_TOGGLE_COLLECT;
    const auto begin = std::chrono::steady_clock::now();
    batch();
    const auto end = std::chrono::steady_clock::now();
    if (is_counted_) CALLGRIND_TOGGLE_COLLECT;
    times_.push_back(
        std::chrono::duration<double, std::nano>(end - begin).count() / kBatch);
  }
  double Quantile(double share) {
    std::sort(times_.begin(), times_.end());
    return times_[static_cast<size_t>(share * (times_.size() - 1))];
  }

 private:
  bool is_counted_;
  std::vector<double> times_;
};

// Steps of some batches: 64 requests, then 64 releases of any that are live.
struct Event {
  int64_t size = 0;
  int freed = 0;  // request of the step that it frees
};
struct Step {
  std::vector<Event> events;  // one of each kind, by number
  std::vector<StepRequest> requests;
};

inline Step RandomStep() {
  std::mt19937_64 random(kSeed);
  Step step;
  std::vector<int> live;
  for (int batch = 0; batch < kBatchesOfStep; ++batch) {
    for (int i = 0; i < kBatch; ++i) {
      live.push_back(static_cast<int>(step.events.size()));
      step.events.push_back({.size = SizeOf(&random)});
      step.requests.push_back({.size = Bytes{step.events.back().size}});
    }
    // Those of the first batches stay for a while.
    if (batch < kBatchesOfStep / 2) continue;
    std::shuffle(live.begin(), live.end(), random);
    for (int i = 0; i < 2 * kBatch; ++i) {
      const int freed = live.back();
      live.pop_back();
      step.events[(batch - kBatchesOfStep / 2) * 2 * kBatch + i].freed = freed;
      step.requests[freed].life =
          static_cast<int64_t>(step.requests.size()) - freed;
    }
  }
  return step;
}

// `calls` makes and takes back blocks of whatever type it has for them.
template <typename Calls>
void RunSteps(const Step& step, const Calls& calls, int batches,
              Clock* allocating, Clock* freeing) {
  std::vector<decltype(calls.Allocate(0))> blocks(step.events.size());
  for (int done = 0; done < batches; done += kBatchesOfStep) {
    calls.BeginStep();
    int freed = 0;
    for (int batch = 0; batch < kBatchesOfStep; ++batch) {
      allocating->Time([&] {
        for (int i = batch * kBatch; i < (batch + 1) * kBatch; ++i) {
          blocks[i] = calls.Allocate(step.events[i].size);
        }
      });
      if (batch < kBatchesOfStep / 2) continue;
      for (int half = 0; half < 2; ++half, freed += kBatch) {
        freeing->Time([&] {
          for (int i = freed; i < freed + kBatch; ++i) {
            calls.Free(std::move(blocks[step.events[i].freed]));
          }
        });
      }
    }
  }
}

// Nanoseconds per operation, as one JSON object.
inline void Print(Clock* allocating, Clock* freeing) {
  std::printf("{\"allocate\": [%.1f, %.1f], \"free\": [%.1f, %.1f]}\n",
              allocating->Quantile(0.5), allocating->Quantile(0.99),
              freeing->Quantile(0.5), freeing->Quantile(0.99));
}

}  // namespace ebbtide

#endif  // EBBTIDE_BENCH_ARENA_STEPS_H_
