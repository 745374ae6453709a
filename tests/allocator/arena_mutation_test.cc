// Mutated steps on a page arena, by demand or with a plan, with few pages or
// many.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/fake_pages.h"
#include "tests/allocator/mutated_steps.h"

namespace ebbtide {
namespace {

constexpr int kSteps = 4;  // steps, the second of which is mutated
constexpr int kModes = 3;  // 0: by demand

using Pieces = std::vector<std::pair<int64_t, int64_t>>;

// The piece of `pieces` that [begin, end) meets, or nullptr.
const std::pair<int64_t, int64_t>* Met(const Pieces& pieces, int64_t begin,
                                       int64_t end) {
  for (const auto& piece : pieces) {
    if (piece.first < end && begin < piece.second) return &piece;
  }
  return nullptr;
}

// Pieces that are live with buffer `i`, in the next step, too, among those
// before it.
Pieces LiveWith(const std::vector<Buffer>& buffers,
                const std::vector<Pieces>& places, size_t i) {
  Pieces live;
  for (size_t j = 0; j < i; ++j) {
    const bool is_live = j + buffers[j].until >= i;
    const bool meets_next = i + buffers[i].until >= buffers.size() + j;
    if (!is_live && !meets_next) continue;
    live.insert(live.end(), places[j].begin(), places[j].end());
  }
  return live;
}

// Each gets, in the order in which they are asked for, the lowest place that is
// free of all that are live with it, or some are scattered over pages that are.
ArenaPlan PlanFor(const std::vector<Buffer>& buffers, std::mt19937* random) {
  const bool is_scattering = (*random)() % 2 == 0;
  std::vector<Pieces> places;
  std::vector<PlannedRequest> step;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t size = (buffers[i].size + 511) / 512 * 512;
    const Pieces live = LiveWith(buffers, places, i);
    PlannedRequest request = {.size = Bytes{buffers[i].size},
                              .stream = buffers[i].stream};
    Pieces place;
    if (is_scattering && (*random)() % 3 == 0) {
      for (int64_t page = 0; std::ssize(place) * kFakePage < size; ++page) {
        const int64_t begin = page * kFakePage;
        const bool is_skipped = (*random)() % 4 == 0;
        if (is_skipped || Met(live, begin, begin + kFakePage)) continue;
        request.pages.push_back(page);
        place.emplace_back(begin, begin + kFakePage);
      }
    } else {
      while (const auto* met =
                 Met(live, request.offset, request.offset + size)) {
        request.offset = met->second;
      }
      place = {{request.offset, request.offset + size}};
    }
    places.push_back(std::move(place));
    step.push_back(std::move(request));
  }
  return ArenaPlan::Make(step, Bytes{kFakePage});
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
    ASSERT_TRUE(arena.BeginPlan(PlanFor(step, &random)));
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
  EXPECT_TRUE(ArenaCheck::Holds(arena));
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
    ASSERT_TRUE(arena.BeginPlan(PlanFor(step, &random)));
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
