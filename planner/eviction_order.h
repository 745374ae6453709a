// The choice of the value to evict when memory is short and nothing was
// planned: the densest one, in bytes by the root of the time to its next use by
// the cost of its return. If that one alone is enough, any that is enough would
// be: then the one that is best whatever its bytes.
//
// With the time itself instead of its root what is far ahead goes first
// whatever it costs; what comes back twice costs twice, too
// (docs/decisions/recompute.md has figures, `./dev bench demand` takes them).
#ifndef EBBTIDE_PLANNER_EVICTION_ORDER_H_
#define EBBTIDE_PLANNER_EVICTION_ORDER_H_

#include <cmath>

namespace ebbtide {

// Share of the forward pass that is added to the time to every next use, so
// that among near values the cost decides.
inline constexpr double kNear = 0.1;

// One choice. Feed it every candidate, in any order; of equal ones the first.
class EvictionChoice {
 public:
  // `missing`: bytes that have to go.
  explicit EvictionChoice(double missing) : missing_(missing) {}

  // True if a candidate could become the choice. `ahead`: time to its next use,
  // in any unit that all candidates share; `cost`, positive: of its return, or
  // less.
  bool MayWin(double bytes, double ahead, double cost) const {
    const double worth = std::sqrt(ahead) / cost;
    return bytes * worth > most_dense_ ||
           (bytes >= missing_ && worth > most_worth_);
  }

  void Consider(int index, double bytes, double ahead, double cost) {
    const double worth = std::sqrt(ahead) / cost;
    if (bytes * worth > most_dense_) {
      most_dense_ = bytes * worth;
      dense_ = index;
      dense_is_enough_ = bytes >= missing_;
    }
    if (bytes >= missing_ && worth > most_worth_) {
      most_worth_ = worth;
      enough_ = index;
    }
  }

  // -1: there was no candidate.
  int best() const { return dense_is_enough_ ? enough_ : dense_; }

 private:
  const double missing_;
  double most_dense_ = -1;
  double most_worth_ = -1;
  int dense_ = -1;
  int enough_ = -1;
  bool dense_is_enough_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_EVICTION_ORDER_H_
