#include "hooks/margin.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr int64_t kLeastPart = 100;
constexpr int64_t kStepPart = 32;
// Plans that differ by less than this part of the budget are the same.
constexpr int64_t kSamePart = 128;

bool Change(Bytes margin, Margins* margins) {
  ++margins->changes;
  margins->now = margin;
  return true;
}

}  // namespace

Bytes LeastMargin(Bytes budget) {
  return Bytes{std::max(Count(budget) / kLeastPart, int64_t{1} << 20)};
}

Bytes FirstMargin(Bytes budget, Bytes waste) {
  return std::min(std::max(LeastMargin(budget), waste),
                  Bytes{Count(budget) / 2});
}

bool Grow(Bytes budget, Bytes peak, Margins* margins) {
  if (margins->changes >= Margins::kMostChanges) return false;
  if (margins->held && *margins->held > margins->now) {
    Change(*margins->held, margins);
    margins->changes = Margins::kMostChanges;
    return true;
  }
  const Bytes same{Count(budget) / kSamePart};
  const Bytes before = margins->shrunk_from;
  if (before > Bytes{} && peak > before - same) {
    margins->changes = Margins::kMostChanges;
    return false;
  }
  margins->shrunk_from = peak;
  const Bytes margin = margins->now + Bytes{Count(budget) / kStepPart};
  return Change(std::min(margin, Bytes{Count(budget) / 2}), margins);
}

bool Shrink(Bytes budget, Bytes peak, Bytes used, Margins* margins) {
  const Bytes least = LeastMargin(budget);
  const Bytes same{Count(budget) / kSamePart};
  const Bytes margin = std::max(used - peak, Bytes{}) + least;
  // A plan well below what it may take has no use for more.
  const bool takes_all = peak > budget - margins->now - same;
  if (margins->changes >= Margins::kMostChanges || !takes_all ||
      budget - used <= least || margin > margins->now - same) {
    return false;
  }
  margins->held = margins->now;
  margins->shrunk_from = {};
  return Change(margin, margins);
}

}  // namespace ebbtide
