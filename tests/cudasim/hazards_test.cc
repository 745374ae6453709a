#include "tests/cudasim/hazards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudasim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two streams, and a block of 256 bytes that an allocator takes and frees for
// the first of them. All of it is checked under two schedules that run work at
// opposite times: what is found must not depend on that.
class HazardsTest : public testing::TestWithParam<Schedule> {
 protected:
  HazardsTest() { queue.set_schedule(GetParam()); }

  OpRef Access(Stream* stream, const char* name, bool write, size_t offset = 0,
               size_t size = 256) {
    Work work;
    work.name = name;
    work.accesses = {{memory + offset, size, write}};
    OpRef op = queue.Push(stream, std::move(work), lock);
    message = hazards.Check(*op);
    return op;
  }
  void Take() { hazards.Taken(memory, 256, main); }
  std::string Free() {
    return hazards.Freed(memory, queue.OrderOf(main).get());
  }

  std::mutex mutex;
  Lock lock{mutex};
  Queue queue{1};
  Hazards hazards;
  Stream* main = queue.legacy(0);
  Stream* side = queue.Create(0, true, 0);
  std::string message;
  char memory[512];
};

INSTANTIATE_TEST_SUITE_P(Schedules, HazardsTest,
                         testing::Values(Schedule::kEager, Schedule::kLate),
                         [](const auto& info) {
                           return info.param == Schedule::kEager ? "Eager"
                                                                 : "Late";
                         });

TEST_P(HazardsTest, ReuseInTheOrderOfOneStreamIsLegal) {
  Take();
  Access(main, "produce", true);
  EXPECT_EQ(Free(), "");
  Take();
  Access(main, "next", true);
  EXPECT_EQ(message, "");
  EXPECT_TRUE(hazards.messages().empty());
}

TEST_P(HazardsTest, FreeingWhatAnotherStreamStillReadsIsAHazard) {
  Take();
  const OpRef made = Access(main, "produce", true);
  queue.Await(side, made);
  Access(side, "offload", false);
  EXPECT_EQ(message, "");
  EXPECT_THAT(Free(), AllOf(HasSubstr("freed"), HasSubstr("offload (reads"),
                            HasSubstr("block 1")));
}

TEST_P(HazardsTest, ReuseThatIsNotOrderedBehindTheLastHolderNamesBoth) {
  hazards.Taken(memory, 256, nullptr);
  Access(side, "offload", false);
  EXPECT_EQ(hazards.Freed(memory, nullptr), "");
  hazards.Taken(memory, 256, nullptr);
  Access(main, "next", true);
  EXPECT_THAT(message, AllOf(HasSubstr("next (writes"), HasSubstr("block 2"),
                             HasSubstr("offload (reads"), HasSubstr("block 1"),
                             HasSubstr("not ordered behind")));
  EXPECT_EQ(hazards.messages().size(), 1);
}

TEST_P(HazardsTest, AWaitForTheEventMakesReuseLegal) {
  Take();
  const OpRef read = Access(side, "offload", false);
  queue.Await(main, read);
  EXPECT_EQ(Free(), "");
  Take();
  Access(main, "next", true);
  EXPECT_EQ(message, "");
}

TEST_P(HazardsTest, AWaitOfTheHostMakesReuseLegal) {
  Take();
  const OpRef read = Access(side, "offload", false);
  queue.Wait(read, lock);
  EXPECT_EQ(Free(), "");
  Take();
  Access(main, "next", true);
  EXPECT_EQ(message, "");
}

TEST_P(HazardsTest, AccessAfterTheFreeIsAHazard) {
  Take();
  Access(main, "produce", true);
  EXPECT_EQ(Free(), "");
  Access(main, "stale", false);
  EXPECT_THAT(message,
              AllOf(HasSubstr("stale (reads"), HasSubstr("after it was freed"),
                    HasSubstr("produce (writes"), HasSubstr("block 1")));
}

TEST_P(HazardsTest, OnlyTheBytesThatWereAccessedCount) {
  hazards.Taken(memory, 256, nullptr);
  Access(side, "head", false, 0, 64);
  hazards.Freed(memory, nullptr);
  hazards.Taken(memory + 128, 128, nullptr);
  Access(main, "tail", true, 128, 128);
  EXPECT_EQ(message, "");
  hazards.Taken(memory, 128, nullptr);
  Access(main, "beside", true, 64, 64);
  EXPECT_EQ(message, "");
  Access(main, "overlapping", true, 0, 128);
  EXPECT_THAT(message, HasSubstr("head (reads"));
}

TEST_P(HazardsTest, UsesOutliveAHolderThatNeverTouchedItsBytes) {
  hazards.Taken(memory, 256, nullptr);
  Access(side, "old", false);
  hazards.Freed(memory, nullptr);
  hazards.Taken(memory, 256, nullptr);
  hazards.Freed(memory, nullptr);
  hazards.Taken(memory, 256, nullptr);
  Access(main, "new", true);
  EXPECT_THAT(message, AllOf(HasSubstr("block 3"), HasSubstr("block 1")));
}

TEST_P(HazardsTest, WhatTheDeviceTookBackIsNotWatched) {
  Take();
  Access(main, "produce", true);
  Free();
  hazards.Gone(memory, 512);
  Access(side, "somebody else", true);
  EXPECT_EQ(message, "");
}

TEST_P(HazardsTest, UnmappingWhatTheHostHasNotWaitedForIsAHazard) {
  Take();
  const OpRef made = Access(main, "produce", true);
  Free();
  Take();
  EXPECT_THAT(hazards.Unmapped(memory + 128, 64, queue.host_order()),
              AllOf(HasSubstr("block 1"), HasSubstr("loses a page"),
                    HasSubstr("produce (writes")));
  EXPECT_EQ(hazards.Unmapped(memory + 256, 64, queue.host_order()), "");
  queue.Wait(made, lock);
  EXPECT_EQ(hazards.Unmapped(memory, 64, queue.host_order()), "");
}

TEST_P(HazardsTest, AWaitForWorkBehindAnotherStreamsIsOneForBoth) {
  Take();
  queue.Await(side, Access(main, "produce", true));
  queue.Wait(Access(side, "offload", false), lock);
  EXPECT_EQ(hazards.Unmapped(memory, 256, queue.host_order()), "");
}

TEST_P(HazardsTest, ForgettingWhatTheHostKnowsKeepsTheRest) {
  hazards.Taken(memory, 256, nullptr);
  const OpRef known = Access(main, "known", false, 0, 64);
  queue.Wait(known, lock);
  Access(side, "unknown", false, 64, 64);
  hazards.Forget(queue.host_order());
  hazards.Freed(memory, nullptr);
  hazards.Taken(memory, 256, nullptr);
  Access(main, "next", true);
  EXPECT_THAT(message, HasSubstr("unknown (reads"));
}

}  // namespace
}  // namespace cudasim
