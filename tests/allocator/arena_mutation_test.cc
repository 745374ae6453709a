// Mutated steps on a page arena, by demand or with a plan, with few pages or
// many.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_pages.h"
#include "tests/allocator/mutated_steps.h"

namespace ebbtide {
namespace {

constexpr int kSteps = 4;  // of which the second is mutated
constexpr int kModes = 3;  // 0: by demand

// Each gets, in the order in which they are asked for, the lowest place that is
// free of all that are live with it, in the next step, too.
void Place(std::vector<Buffer>* buffers) {
  for (size_t i = 0; i < buffers->size(); ++i) {
    Buffer& buffer = (*buffers)[i];
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const Buffer& other = (*buffers)[j];
        const bool is_live = j + other.until >= i;
        const bool meets_next = i + buffer.until >= buffers->size() + j;
        if (!is_live && !meets_next) continue;
        const int64_t end = (other.offset + other.size + 511) / 512 * 512;
        if (other.offset < buffer.offset + buffer.size && buffer.offset < end) {
          buffer.offset = end;
          moved = true;
        }
      }
    }
  }
}

ArenaPlan PlanFor(std::vector<Buffer> buffers) {
  Place(&buffers);
  std::vector<PlannedRequest> step;
  for (const Buffer& buffer : buffers) {
    step.push_back({.size = Bytes{buffer.size},
                    .stream = buffer.stream,
                    .offset = buffer.offset});
  }
  return *ArenaPlan::Make(step);
}

void Replay(int seed) {
  std::mt19937 random(seed);
  const std::vector<Buffer> step = RandomStep(&random);
  const int how = seed % kMutations;
  const bool has_few_pages = seed / kMutations % 2 == 1;
  FakePages pages(kMutatedStreams);
  if (has_few_pages) pages.limit = 2 + random() % 16;
  PageArena arena(&pages, &pages, Bytes{kFakePage / 2});
  ASSERT_TRUE(arena.Reserve(Bytes{1 << 24}).ok());
  if (seed % kModes != 0) {
    ASSERT_TRUE(arena.BeginPlan(PlanFor(step)));
  }
  MutatedProgram program(&arena, &pages);
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Buffer> now = step;
    if (i == 1) Mutate(how, &now, &random);
    arena.BeginStep();
    program.Run(now, how == kMutations - 1 && i == 1 ? &random : nullptr);
    ASSERT_EQ(pages.problem(), "") << "step " << i;
    EXPECT_EQ(arena.facts().mapped, Bytes{pages.mapped() * kFakePage});
    EXPECT_EQ(arena.facts().alive, Bytes{pages.live_bytes()});
    if (i == 2 && seed % kModes == 1) arena.EndPlan();
  }
  EXPECT_TRUE(arena.Check());
  if (!has_few_pages) {
    EXPECT_EQ(program.refused(), 0);
  }
}

TEST(ArenaMutationTest, NoLiveBytesOverlapAndEveryReuseIsOrdered) {
  const int count = std::getenv("EBBTIDE_LONG") != nullptr ? 1'000'000 : 10'000;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Replay(seed);
  }
}

TEST(ArenaMutationTest, AStepThatKeepsToThePlanIsServedFromIt) {
  for (int seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Buffer> step = RandomStep(&random);
    FakePages pages(kMutatedStreams);
    PageArena arena(&pages, &pages, Bytes{kFakePage / 2});
    ASSERT_TRUE(arena.Reserve(Bytes{1 << 24}).ok());
    ASSERT_TRUE(arena.BeginPlan(PlanFor(step)));
    MutatedProgram program(&arena, &pages);
    for (int i = 0; i < kSteps; ++i) {
      arena.BeginStep();
      program.Run(step);
    }
    ASSERT_EQ(pages.problem(), "") << seed;
    EXPECT_EQ(arena.facts().counts.planned,
              kSteps * static_cast<int>(step.size()));
    EXPECT_EQ(arena.facts().moves, 0);
  }
}

}  // namespace
}  // namespace ebbtide
