// Random programs on four streams, by demand and with plans, in whatever order
// the device runs what is queued.
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/torch_cuda_steps.h"
#include "tests/allocator/torch_cuda_streams_fixture.h"

namespace ebbtide {
namespace {

constexpr CudasimSchedule kSchedules[] = {
    CUDASIM_EAGER, CUDASIM_ONTIME, CUDASIM_LATE, CUDASIM_RACE, CUDASIM_RANDOM};
constexpr int kSteps = 14;
// Approximate bytes of the buffers of a step.
constexpr int64_t kBudgets[] = {8, 12, 16, 32};

class TorchCudaRaceTest : public TorchCudaStreamsTest {
 protected:
  void RunProgram(int seed) {
    std::mt19937 random(seed);
    const std::vector<Buffer> step = RandomStep(&random);
    CudaAllocator::SetBudget(kDevice, Bytes{kBudgets[random() % 4] * kMiB});
    cudasim_set_schedule(kSchedules[seed % std::size(kSchedules)]);
    cudasim_set_seed(seed);
    const bool wants_plan = random() % 3 != 0;
    for (int i = 0; i < kSteps; ++i) {
      std::vector<Buffer> now = step;
      if (i > 6 && random() % 2 == 0) {
        Mutate(random() % (kMutations - 1), &now, &random);
      }
      RunStep(now, wants_plan);
      if (random() % 4 == 0) cudaDeviceSynchronize();
      if (random() % 16 == 0) native::emptyCache();
    }
    // The next program begins by demand.
    FreeAll();
    for (int i = 0; i < StepArena::kBadSteps; ++i) {
      BeginStep(kDevice, /*plan=*/0);
    }
    CheckWork();
  }
};

TEST_F(TorchCudaRaceTest, NoWorkTouchesMemoryBeforeOthersAreDoneWithIt) {
  const int count = std::getenv("EBBTIDE_LONG") != nullptr ? 20'000 : 200;
  const auto before = Facts().pages;
  for (int seed = 0; seed < count && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RunProgram(seed);
  }
  const auto after = Facts().pages;
  const int64_t planned = after.counts.planned - before.counts.planned;
  const int64_t moves = after.moves - before.moves;
  std::cout << count << " programs on four streams: " << uses() << " uses, "
            << planned << " requests served as planned, " << moves
            << " pages moved, " << refused() << " requests refused, "
            << Device().hazards << " hazards\n";
  EXPECT_GT(planned, 10 * count);
  EXPECT_GT(moves, 10 * count);
}

}  // namespace
}  // namespace ebbtide
