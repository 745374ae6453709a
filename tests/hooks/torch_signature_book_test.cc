#include "hooks/signature_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "hooks/plan_run.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;

std::shared_ptr<const TapePlan> PlanOf(double milliseconds, bool moves) {
  TapePlan plan;
  plan.plan.time = milliseconds * 1e6;
  if (moves) plan.plan.actions = {{Action::Do::kOffload, 0}};
  return std::make_shared<const TapePlan>(std::move(plan));
}

std::vector<std::shared_ptr<const TapePlan>> PlansOf(
    const SignatureBook& book) {
  std::vector<std::shared_ptr<const TapePlan>> plans;
  for (const Candidate& c : book.candidates) plans.push_back(c.plan);
  return plans;
}

TEST(SignatureBookTest, PlansOfBothKindsAreCandidates) {
  SignatureBook book;
  const auto still = PlanOf(100, /*moves=*/false);
  const auto moving = PlanOf(101, /*moves=*/true);
  EXPECT_TRUE(book.Take(still));
  EXPECT_TRUE(book.Take(moving));
  EXPECT_THAT(PlansOf(book), ElementsAre(still, moving));
}

TEST(SignatureBookTest, OnlyABetterPlanReplacesTheOneOfItsKind) {
  SignatureBook book;
  const auto first = PlanOf(100, /*moves=*/false);
  const auto better = PlanOf(99, /*moves=*/false);
  EXPECT_TRUE(book.Take(first));
  EXPECT_FALSE(book.Take(PlanOf(99.9, /*moves=*/false)));
  EXPECT_THAT(PlansOf(book), ElementsAre(first));
  EXPECT_TRUE(book.Take(better));
  EXPECT_THAT(PlansOf(book), ElementsAre(better));
}

TEST(SignatureBookTest, PlansThatAreTooHighGoWhenAnyOtherComes) {
  SignatureBook book;
  const auto moving = PlanOf(110, /*moves=*/true);
  EXPECT_TRUE(book.Take(PlanOf(100, /*moves=*/false)));
  book.ReplacePlans();
  EXPECT_TRUE(book.Take(moving));
  EXPECT_THAT(PlansOf(book), ElementsAre(moving));
}

}  // namespace
}  // namespace ebbtide
