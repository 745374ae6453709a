#include "allocator/arena/step_trace.h"

#include <fstream>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const void* Block(int number) {
  return reinterpret_cast<const void*>(int64_t{number} + 1);
}

std::vector<int64_t> LivesOf(const StepTrace& trace) {
  std::vector<int64_t> lives;
  for (const StepRequest& request : trace.Repeated()) {
    lives.push_back(request.life);
  }
  return lives;
}

// Asks for three blocks: one that is freed at once, one that is freed when the
// next step's first has come, and one that stays.
void RunStep(StepTrace* trace, int step) {
  trace->BeginStep();
  trace->OnAllocate(Block(0), Bytes{100}, 0);
  trace->OnFree(Block(0));
  if (step > 0) trace->OnFree(Block(step));
  trace->OnAllocate(Block(1 + step), Bytes{200}, 1);
  trace->OnAllocate(Block(1000 + step), Bytes{300}, 0);
}

TEST(StepTraceTest, LivesAreCountedInRequestsAcrossSteps) {
  StepTrace trace;
  for (int step = 0; step < 2; ++step) RunStep(&trace, step);
  EXPECT_THAT(LivesOf(trace), IsEmpty());  // the second may not be over
  RunStep(&trace, 2);
  EXPECT_THAT(LivesOf(trace), ElementsAre(1, 3, StepRequest::kLong));
}

TEST(StepTraceTest, BlocksThatTheNextStepReplacesReturn) {
  StepTrace trace;
  for (int step = 0; step < 3; ++step) RunStep(&trace, step);
  trace.BeginStep();
  EXPECT_EQ(trace.Returning(trace.Repeated()), Bytes{200});
  trace.OnFree(Block(3));
  EXPECT_EQ(trace.Returning(trace.Repeated()), Bytes{0});
}

TEST(StepTraceTest, AnotherSizeOrStreamIsNoRepetition) {
  for (const bool other_stream : {false, true}) {
    StepTrace trace;
    for (int step = 0; step < 4; ++step) {
      trace.BeginStep();
      const bool odd = step == 2;
      trace.OnAllocate(Block(step), Bytes{odd && !other_stream ? 100 : 101},
                       odd && other_stream ? 1 : 0);
    }
    EXPECT_THAT(trace.Repeated(), IsEmpty());
  }
}

StepRequest Request(int64_t size, int64_t life, int stream = 0) {
  return {.size = Bytes{size}, .stream = stream, .life = life};
}

TEST(LayOutTest, WhatIsOverMakesRoomAndWhatStaysLongIsUnplaced) {
  auto layout = LayOut({Request(1000, 1), Request(700, StepRequest::kLong),
                        Request(1024, 1), Request(10, 1)});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->bound, Bytes{1024});
  EXPECT_EQ(layout->plan.height(), Bytes{1024});
  EXPECT_EQ(layout->plan.slots()[0].offset, 0);
  EXPECT_EQ(layout->plan.slots()[1].offset, kUnplaced);
  EXPECT_EQ(layout->plan.slots()[1].size, Bytes{700});
  EXPECT_EQ(layout->plan.slots()[2].offset, 0);
}

TEST(LayOutTest, WhatIsAliveWhenTheNextStepBeginsMakesRoomInBetween) {
  auto layout = LayOut({Request(512, 3), Request(1024, 1), Request(1024, 2)});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->bound, Bytes{1536});
  EXPECT_EQ(layout->plan.height(), Bytes{1536});
  EXPECT_EQ(layout->plan.slots()[1].offset, layout->plan.slots()[2].offset);
}

TEST(LayOutTest, WhatIsAliveForAWholeStepMakesNoRoom) {
  auto layout = LayOut(
      {Request(512, 1), Request(1024, 3), Request(2048, StepRequest::kLong)});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->bound, Bytes{1536});
  EXPECT_EQ(layout->plan.height(), Bytes{1536});
  EXPECT_EQ(layout->plan.slots()[2].offset, kUnplaced);
}

// Every two blocks at every instant of the second of three steps.
TEST(LayOutTest, WhatIsThereAtOnceLiesApart) {
  constexpr int64_t kPage = 1024;
  int scattered = 0;
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int64_t count = 60 + random() % 100;
    std::vector<StepRequest> step;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t most = random() % 3 == 0 ? count / 2 : 8;
      step.push_back(Request((1 + random() % 12) * 2048, 1 + random() % most));
    }
    const auto layout = LayOut(step, Bytes{seed % 2 == 0 ? 0 : kPage});
    ASSERT_TRUE(layout.ok()) << layout.status();
    const ArenaPlan& plan = layout->plan;
    for (int64_t now = count; now < 2 * count; ++now) {
      std::map<int64_t, int64_t> taken;  // ends by begin
      for (int64_t asked = 0; asked <= now; ++asked) {
        if (asked + step[asked % count].life <= now) continue;
        const ArenaPlan::Slot& slot = plan.slots()[asked % count];
        scattered += slot.is_scattered() ? 1 : 0;
        if (!slot.is_scattered()) {
          EXPECT_TRUE(taken.emplace(slot.offset, slot.end).second);
        }
        for (const int64_t i : plan.PagesOf(slot)) {
          EXPECT_TRUE(taken.emplace(i * kPage, (i + 1) * kPage).second);
        }
      }
      int64_t free = 0;
      for (const auto& [begin, end] : taken) {
        EXPECT_GE(begin, free) << "seed " << seed << ", instant " << now;
        free = end;
      }
      EXPECT_LE(Bytes{free}, plan.height());
    }
  }
  EXPECT_GT(scattered, 1000);
}

// Size and life of each request of a step of ResNet that offloads within
// 909 MiB: tests/python/budget_matrix.py's, on the simulated device.
TEST(LayOutTest, SearchLowersALayoutThatPagesLeaveHigh) {
  std::ifstream file(EBBTIDE_TEST_DATA "/steps/resnet_offload.txt");
  std::vector<StepRequest> step;
  for (int64_t size = 0, life = 0; file >> size >> life;) {
    step.push_back(Request(size, life));
  }
  ASSERT_EQ(step.size(), 260);
  const auto layout = LayOut(step, Bytes{2 << 20});
  ASSERT_TRUE(layout.ok()) << layout.status();
  const int64_t bound = Count(layout->bound);
  EXPECT_LE(Count(layout->plan.height()), bound + bound / 64);
}

}  // namespace
}  // namespace ebbtide
