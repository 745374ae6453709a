// Units of the planner as types, so that bytes and counts do not mix.
#ifndef EBBTIDE_PLANNER_UNITS_H_
#define EBBTIDE_PLANNER_UNITS_H_

#include <cstdint>

namespace ebbtide {

// A size or an amount of memory. Never negative in a valid input.
enum class Bytes : int64_t {};

constexpr int64_t Count(Bytes b) { return static_cast<int64_t>(b); }
constexpr Bytes operator+(Bytes a, Bytes b) {
  return Bytes{Count(a) + Count(b)};
}
constexpr Bytes operator-(Bytes a, Bytes b) {
  return Bytes{Count(a) - Count(b)};
}
constexpr Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }
constexpr Bytes& operator-=(Bytes& a, Bytes b) { return a = a - b; }

// Time in the unit of its input: nanoseconds in a recorded profile, whatever
// the author chose in a chain file. Sums of recorded times are exact, because
// whole nanoseconds stay below 2^53.
using Time = double;

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_UNITS_H_
