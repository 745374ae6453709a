#include "tests/planner/chain_oracle.h"

#include <gtest/gtest.h>

#include "tests/planner/chains.h"

namespace ebbtide {
namespace {

TEST(ChainOracleTest, KnownChainsTakeTheirKnownTimes) {
  const auto pinned = KnownTimes("exact-pinned");
  const auto unpinned = KnownTimes("exact-unpinned");
  ASSERT_EQ(pinned.size(), 4u);
  ASSERT_EQ(unpinned.size(), 7u);
  for (const KnownTime& k : pinned) {
    EXPECT_EQ(LeastTime(k.chain, k.budget, Inputs::kPinned), k.time)
        << k.name << Count(k.budget);
  }
  for (const KnownTime& k : unpinned) {
    EXPECT_EQ(LeastTime(k.chain, k.budget), k.time)
        << k.name << Count(k.budget);
  }
}

}  // namespace
}  // namespace ebbtide
