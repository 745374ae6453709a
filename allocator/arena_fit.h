// How much a plan uses of the memory that it was laid out in, and the plan in
// no more than that.
//
// Holes between blocks of others are as long as they are, and buffers fill them
// up to somewhere: what lies behind the last slot of a run no step ever uses.
#ifndef EBBTIDE_ALLOCATOR_ARENA_FIT_H_
#define EBBTIDE_ALLOCATOR_ARENA_FIT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/arena_plan.h"
#include "allocator/arena_space.h"
#include "planner/units.h"

namespace ebbtide {

// By run of the space, how far from its begin its last slot ends; 0: it has
// none. OutOfRange, naming the request, where a slot is not in one run.
absl::StatusOr<std::vector<Bytes>> UsedOf(const ArenaPlan& plan,
                                          const ArenaSpace& space);

struct ArenaFit {
  ArenaPlan plan;
  // Of each run no more than is used; the last one has the fallback behind it.
  ArenaSpace space;
  Bytes fallback{};
  std::vector<ArenaRun> ends;  // what is left of the runs
  Bytes bound{};               // of the plan; its owner knows
};

// The plan of one phase, laid out in `from`, with the same bytes in other runs:
// one for each that it uses, in their order. OutOfRange, naming request or run,
// where they do not hold that, or are not as many.
absl::StatusOr<ArenaFit> FitInto(absl::Span<const ArenaRun> runs,
                                 Bytes fallback, const ArenaPlan& plan,
                                 const ArenaSpace& from);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_FIT_H_
