// Mutated replays of steps that an arena has recorded itself: it records them,
// serves a plan, lays it out anew, retreats and turns off, while requests come
// on four streams, with few pages or many.
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "allocator/arena/step_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/fake_pages.h"
#include "tests/allocator/mutated_steps.h"

namespace ebbtide {
namespace {

constexpr int kReplays = 50;  // replays of each recorded step
constexpr Bytes kAddresses{1 << 24};

using State = StepArena::State;

class StepReplays {
 public:
  // Replays by the state of the arena, and what its plans did in them.
  struct Totals {
    std::map<State, int64_t> replays;
    int64_t planned = 0;
    int64_t mismatches = 0;
    int64_t moves = 0;
    int64_t refused = 0;
  };

  explicit StepReplays(int seed) : random_(seed), step_(RandomStep(&random_)) {
    if (random_() % 2 == 0) pages_.limit = 4 + random_() % 20;
  }

  void Run(Totals* totals) {
    ASSERT_TRUE(page_arena_.Reserve(kAddresses).ok());
    for (int i = 0; i < 6; ++i) RunStep(step_);
    for (int i = 0; i < kReplays && !testing::Test::HasFailure(); ++i) {
      std::vector<Buffer> now = step_;
      const int count = 1 + random_() % 3;
      for (int k = 0; k < count; ++k) {
        Mutate(random_() % (kMutations - 1), &now, &random_);
      }
      RunStep(now);
      ++totals->replays[arena_.facts().state];
      // Steps may be such from now on, or none may follow a plan for a while.
      if (random_() % 32 == 0) step_ = now;
      if (random_() % 64 == 0) is_wanted_ = !is_wanted_;
      for (int k = random_() % 3; k > 0; --k) RunStep(step_);
    }
    AddTo(totals);
    End();
  }

 private:
  void RunStep(const std::vector<Buffer>& buffers) {
    arena_.BeginStep(is_wanted_);
    program_.Run(buffers);
    if (random_() % 4 == 0) pages_.WaitForAll();
    const PageArena::Facts facts = page_arena_.facts();
    EXPECT_EQ(pages_.problem(), "");
    EXPECT_EQ(facts.mapped, Bytes{pages_.mapped() * kFakePage});
    EXPECT_EQ(facts.alive, Bytes{pages_.live_bytes()});
  }

  void AddTo(Totals* totals) {
    const PageArena::Facts facts = page_arena_.facts();
    totals->planned += facts.counts.planned;
    totals->mismatches +=
        facts.counts.unexpected + facts.counts.occupied + facts.counts.skipped;
    totals->moves += facts.moves;
    totals->refused += program_.refused();
  }

  void End() {
    EXPECT_TRUE(ArenaCheck::Holds(page_arena_));
    program_.FreeAll();
    EXPECT_EQ(page_arena_.facts().alive, Bytes{0});
    page_arena_.GiveBack(kAddresses, /*of_plan=*/true);
    EXPECT_EQ(pages_.created(), 0);
    EXPECT_TRUE(ArenaCheck::Holds(page_arena_));
    EXPECT_EQ(pages_.problem(), "");
  }

  std::mt19937 random_;
  std::vector<Buffer> step_;
  bool is_wanted_ = true;
  FakePages pages_{kMutatedStreams};
  PageArena page_arena_{&pages_, &pages_, Bytes{kFakePage / 2}};
  StepArena arena_{&page_arena_};
  MutatedProgram<StepArena> program_{&arena_, &pages_};
};

TEST(StepArenaMutationTest, RecordedStepsThatAreMutatedLoseNoBytes) {
  const int count = std::getenv("EBBTIDE_LONG") != nullptr ? 1'000'000 : 10'000;
  StepReplays::Totals totals;
  for (int seed = 0; seed < count / kReplays && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    StepReplays(seed).Run(&totals);
  }
  std::cout << count << " mutated replays:";
  for (const auto& [state, replays] : totals.replays) {
    std::cout << " " << replays << " " << NameOf(state) << ",";
    EXPECT_GT(replays, count / 100) << NameOf(state);
  }
  std::cout << " " << totals.planned << " requests served as planned, "
            << totals.mismatches << " otherwise, " << totals.moves
            << " pages moved, " << totals.refused << " requests refused\n";
  EXPECT_EQ(totals.replays.size(), 3u) << "states";
  EXPECT_GT(totals.mismatches, count);
  EXPECT_GT(totals.moves, count / 10);
}

}  // namespace
}  // namespace ebbtide
