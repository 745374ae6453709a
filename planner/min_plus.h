// The inner loop of the chain solvers' tables: vector min-plus over rows of
// times, one element per slot. Private to the planner.
#ifndef EBBTIDE_PLANNER_MIN_PLUS_H_
#define EBBTIDE_PLANNER_MIN_PLUS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ebbtide {

// Elements that are computed at once, whatever the machine's vectors hold. Each
// stored row is followed by as many copies of its last time, and what is
// written to has room for as many.
inline constexpr int kRowStep = 16;

// Times over slots, of which only the useful band is stored: below `low` there
// is no plan, from `high` on nothing changes. No plan at all: low > high.
template <class T>
struct TimeRow {
  const T* at_low = nullptr;
  int low = 0;
  int high = -1;

  T At(int m) const { return at_low[(m < high ? m : high) - low]; }
};

// out[m] = min(out[m], cost + left[m] + right[m - shift]) for m >= first.
template <class T>
struct MinPlusTerm {
  T cost;
  int first;  // first term; no less than the lows of both rows
  int shift;
  TimeRow<T> left;
  TimeRow<T> right;
};

// Applies all terms to out[..last]; out[..last + kRowStep] must hold some time.
// T is int32_t or double; vectors are as wide
// as the machine's. Sums are taken in the order that is written above.
template <class T>
void MinPlus(absl::Span<const MinPlusTerm<T>> terms, int last, T* out);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_MIN_PLUS_H_
