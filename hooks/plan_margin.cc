#include "hooks/plan_margin.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr int kFirstTightening = 128;  // part of the budget

}  // namespace

PlanMargin MarginFor(const MarginFacts& facts) {
  const Bytes least =
      std::max(Bytes{Count(facts.budget) / 100}, Bytes{int64_t{1} << 20});
  const Bytes tightening{((int64_t{1} << facts.tightened) - 1) *
                         Count(facts.budget) / kFirstTightening};
  const Bytes most{Count(facts.budget) / 2};
  if (!facts.beside) {
    return {
        .alive = std::min(std::max(least, facts.of_step) + tightening, most),
        .address = least};
  }
  PlanMargin margin = {.alive = least + *facts.beside,
                       .address = least + *facts.beside};
  if (facts.of_layout) {
    const Bytes mapped =
        std::max(kMappedMargin, Bytes{Count(facts.budget) / kMappedPart});
    margin.alive = std::min(margin.alive, *facts.of_layout + mapped);
    margin.address = std::min(margin.address, *facts.beside + mapped);
  }
  margin.alive = std::min(margin.alive + tightening, most);
  return margin;
}

}  // namespace ebbtide
