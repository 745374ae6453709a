#include "planner/min_peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "planner/chain_plan.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "tests/planner/chains.h"

namespace ebbtide {
namespace {

using Sizes = std::vector<int64_t>;

int64_t SumOf(const Sizes& d, int from, int to) {
  return std::accumulate(d.begin() + from, d.begin() + to, int64_t{0});
}

int64_t MostOf(const Sizes& d, int from, int to) {
  return *std::max_element(d.begin() + from, d.begin() + to);
}

// The recurrence as it is written, in O(n^2) and more.
int64_t BruteMinPeak(const Sizes& d) {
  const int n = static_cast<int>(d.size());
  Sizes peak = d;
  for (int i = n - 2; i >= 0; --i) {
    int64_t best = std::numeric_limits<int64_t>::max();
    int64_t sum = 0;
    int64_t most = d[i];
    for (int j = i + 1; j < n; ++j) {
      sum += d[j];
      most = std::max(most, d[j]);
      best = std::min(best, std::max(peak[j], sum + d[j] + most));
    }
    peak[i] = d[i] + best;
  }
  return peak[0];
}

// The peak of one set of checkpoints in the two models.
int64_t PeakOf(const Sizes& d, const std::vector<int>& checkpoints) {
  int64_t peak = d.back();
  for (int k = static_cast<int>(checkpoints.size()) - 2; k >= 0; --k) {
    const int i = checkpoints[k];
    const int j = checkpoints[k + 1];
    const int64_t segment = SumOf(d, i + 1, j + 1) + d[j] + MostOf(d, i, j + 1);
    peak = d[i] + std::max(peak, segment);
  }
  return peak;
}

int64_t HeldPeakOf(const Sizes& d, const std::vector<int>& checkpoints) {
  int64_t sum = d[0];
  int64_t most = 0;
  for (size_t k = 1; k < checkpoints.size(); ++k) {
    const int i = checkpoints[k - 1];
    const int j = checkpoints[k];
    sum += d[j];
    most = std::max(most, SumOf(d, i + 1, j + 1) + MostOf(d, i, j + 1));
  }
  return sum + most;
}

// The least of all sets.
template <class Peak>
int64_t LeastOf(const Sizes& d, const Peak& peak) {
  const int n = static_cast<int>(d.size());
  int64_t best = std::numeric_limits<int64_t>::max();
  for (uint32_t set = 0; set < 1u << std::max(0, n - 2); ++set) {
    std::vector<int> checkpoints = {0};
    for (int i = 1; i < n; ++i) {
      if (i == n - 1 || (set >> (i - 1) & 1)) checkpoints.push_back(i);
    }
    best = std::min(best, peak(d, checkpoints));
  }
  return best;
}

// Mostly small, at times with a layer that outweighs its neighbours.
Sizes RandomSizes(std::mt19937& rng, int n) {
  const int most = rng() % 3 == 0 ? 2 : 20;
  Sizes d;
  for (int i = 0; i < n; ++i) {
    d.push_back(rng() % 6 == 0 ? rng() % 200 : rng() % (most + 1));
  }
  return d;
}

TEST(MinPeakTest, TheLinearFormIsTheBruteForceOne) {
  std::mt19937 rng(1);
  for (int count = 0; count < 10000; ++count) {
    const Sizes d = RandomSizes(rng, 1 + rng() % 60);
    const MinPeakResult found = MinPeak(d);
    ASSERT_EQ(found.peak, BruteMinPeak(d)) << count;
    ASSERT_EQ(found.peak, PeakOf(d, found.checkpoints)) << count;
  }
}

TEST(MinPeakTest, NoSetOfCheckpointsHasALowerPeak) {
  std::mt19937 rng(2);
  for (int count = 0; count < 300; ++count) {
    const Sizes d = RandomSizes(rng, 1 + rng() % 10);
    EXPECT_EQ(MinPeak(d).peak, LeastOf(d, PeakOf));
    const MinPeakResult held = MinPeakHeld(d);
    EXPECT_EQ(held.peak, LeastOf(d, HeldPeakOf));
    EXPECT_EQ(held.peak, HeldPeakOf(d, held.checkpoints));
  }
}

// A layer that outweighs all up to the next: U falls as j grows.
TEST(MinPeakTest, SegmentsNeedNotGrowWithTheirEnd) {
  const Sizes d = {1, 10, 1, 1, 1};
  EXPECT_EQ(MinPeak(d).peak, BruteMinPeak(d));
  EXPECT_THAT(MinPeak(d).checkpoints, testing::Not(testing::Contains(1)));
}

TEST(MinPeakTest, EqualLayersNeedTheRootOfTheirNumber) {
  EXPECT_EQ(MinPeak(Sizes(20, 1)).peak, 9);
  for (int n : {10000, 100000, 1000000}) {
    const double peak = MinPeak(Sizes(n, 1)).peak;
    EXPECT_GT(peak, 1.41 * std::sqrt(n)) << n;  // the root of 2 n
    EXPECT_LT(peak, 1.46 * std::sqrt(n)) << n;
  }
}

TEST(MinPeakTest, AMillionLayers) {
  std::mt19937 rng(4);
  const Sizes d = RandomSizes(rng, 1000000);
  const MinPeakResult found = MinPeak(d);
  EXPECT_EQ(found.checkpoints.front(), 0);
  EXPECT_EQ(found.checkpoints.back(), 999999);
  EXPECT_EQ(found.peak, PeakOf(d, found.checkpoints));
}

TEST(MinPeakTest, ThePlanOfAChainRunsNoForwardMoreThanTwice) {
  std::mt19937 rng(3);
  for (int count = 0; count < 100; ++count) {
    const Chain chain = SmallChain(rng, 1 + count % 30);
    for (const char* solver : {"minpeak", "minpeak-cubic"}) {
      const auto probe = MakeChainPlan(chain, Bytes{1}, solver);
      ASSERT_EQ(probe.status(), absl::OkStatus());
      ASSERT_FALSE(probe->feasible);
      const auto plan = MakeChainPlan(chain, probe->least_budget, solver);
      ASSERT_EQ(plan.status(), absl::OkStatus());
      EXPECT_EQ(plan->peak, probe->least_budget);
      Time forward = 0;
      for (Time fw : chain.fw) forward += fw;
      EXPECT_LE(plan->time, BaseTime(chain) + forward);
      EXPECT_FALSE(
          MakeChainPlan(chain, plan->peak - Bytes{1}, solver)->feasible);
    }
  }
}

}  // namespace
}  // namespace ebbtide
