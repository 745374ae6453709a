#include "hooks/plan_margin.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr int kFirstTightening = 128;  // part of the budget

}  // namespace

Bytes MarginFor(const MarginFacts& facts) {
  const Bytes least =
      std::max(Bytes{Count(facts.budget) / 100}, Bytes{int64_t{1} << 20});
  const Bytes tightening{((int64_t{1} << facts.tightened) - 1) *
                         Count(facts.budget) / kFirstTightening};
  const Bytes most{Count(facts.budget) / 2};
  Bytes margin = std::max(least, facts.of_step);
  if (facts.beside) margin = least + *facts.beside;
  if (facts.beside && facts.of_layout) {
    margin = *facts.of_layout +
             std::max(kMappedMargin, Bytes{Count(facts.budget) / kMappedPart});
  }
  return std::min(margin + tightening, most);
}

}  // namespace ebbtide
