#include "planner/pair_bound.h"

#include <gtest/gtest.h>

#include "planner/plan.h"
#include "tests/planner/graph_oracle.h"
#include "tests/planner/profiles.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

// Ends after it was asked `times` times.
Progress Counted(int times) {
  return [asked = 0, times]() mutable {
    return static_cast<double>(asked++) / times;
  };
}

struct Bounds {
  Time one = 0;
  PairBound pair;
};

Bounds BoundsOf(const Profile& p, int64_t budget, bool offload, Time upper,
                int times) {
  const auto graph = CompileGraph(p, true);
  EXPECT_EQ(graph.status(), absl::OkStatus());
  const OverheadBound one =
      BoundOverhead(*graph, budget, offload, [] { return false; });
  EXPECT_FALSE(one.infeasible);
  return {one.overhead,
          BoundOverPairs(*graph, budget, offload, one, upper, Counted(times))};
}

struct Tally {
  int solved = 0;
  int dear = 0;   // the optimum is above 0
  int two = 0;    // pairs gave more than single instants
  int tight = 0;  // of those that are dear: the bound is the optimum
  double one_share = 0;
  double share = 0;
};

void Check(const Profile& p, int64_t budget, Tally* tally) {
  const Time least = GraphOracle(p, Bytes{budget}).LeastTime();
  if (least == GraphOracle::kNever) return;
  const Time optimum = least - BaseTime(p);
  // A plan that is not the best leaves the bound room for error.
  const Bounds b = BoundsOf(p, budget, false, 1.3 * optimum + 5, 20000);
  EXPECT_LE(b.pair.overhead, optimum);
  EXPECT_GE(b.pair.overhead, b.pair.pairs);
  EXPECT_GE(b.pair.pairs, b.one);
  ++tally->solved;
  if (optimum == 0) return;
  ++tally->dear;
  tally->two += b.pair.pairs > b.one * 1.001;
  tally->tight += b.pair.overhead > optimum * (1 - 1e-6);
  tally->one_share += b.one / optimum;
  tally->share += b.pair.overhead / optimum;
}

TEST(PairBoundTest, LiesBetweenOneInstantAndTheExhaustiveSearch) {
  Tally tally;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Profile p = RandomNetwork(seed, 5 + seed % 7);
    const int64_t most = Count(UnmanagedPeak(p));
    SCOPED_TRACE(seed);
    Check(p, most * (55 + seed % 5 * 8) / 100, &tally);
  }
  RecordProperty("solved", tally.solved);
  RecordProperty("dear", tally.dear);
  RecordProperty("two", tally.two);
  RecordProperty("tight", tally.tight);
  RecordProperty("one_share", absl::StrCat(tally.one_share / tally.dear));
  RecordProperty("share", absl::StrCat(tally.share / tally.dear));
  EXPECT_GT(tally.two, 0);
}

// Values held by the script, unsaved ones, ops with two outputs or that may
// not run again.
TEST(PairBoundTest, HoldsForAllThatAProfileCanSay) {
  Tally tally;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Profile p = RandomProfile(seed, 3 + seed % 6);
    const int64_t most = Count(UnmanagedPeak(p));
    for (int percent : {95, 85, 75, 65}) {
      SCOPED_TRACE(absl::StrCat(seed, " at ", percent));
      Check(p, std::max<int64_t>(1, most * percent / 100), &tally);
    }
  }
  RecordProperty("solved", tally.solved);
  RecordProperty("dear", tally.dear);
  RecordProperty("two", tally.two);
  RecordProperty("tight", tally.tight);
  RecordProperty("one_share", absl::StrCat(tally.one_share / tally.dear));
  RecordProperty("share", absl::StrCat(tally.share / tally.dear));
  EXPECT_GT(tally.two, 0);
}

}  // namespace
}  // namespace ebbtide
