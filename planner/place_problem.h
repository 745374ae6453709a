// A problem of placing buffers in one arena of memory, and its solution.
#ifndef EBBTIDE_PLANNER_PLACE_PROBLEM_H_
#define EBBTIDE_PLANNER_PLACE_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planner/units.h"

namespace ebbtide {

// An instant in program order: one number per stream, in a unit of the author's
// choice. A problem with one stream is the plain one, with numbers as instants.
using VectorClock = absl::InlinedVector<int64_t, 1>;

// Half-open: [begin, end). One lifetime is over before another begins if its
// end is at most the other's beginning on every stream (Lamport's order, by
// vector clocks); two of which neither is over before the other may meet.
struct Lifetime {
  VectorClock begin;
  VectorClock end;

  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

struct Buffer {
  Bytes size{};
  Lifetime live;
  // Parts of the lifetime in which the bytes are elsewhere (swapped out) and
  // other buffers may lie at this address; in order, one over before the next
  // begins.
  std::vector<Lifetime> gaps;
  Bytes alignment{1};           // alignment of the offset
  std::optional<Bytes> offset;  // where it has to lie, if that is given

  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct PlaceProblem {
  std::vector<Buffer> buffers;
};

struct Placement {
  std::vector<Bytes> offsets;  // by buffer
  Bytes height{};              // the highest end of a buffer
};

// Sizes, offsets and alignments stay below this.
inline constexpr int64_t kMostBytes = int64_t{1} << 60;

// InvalidArgument, naming the buffer, where a size or alignment is not at least
// 1, the sizes (each with its alignment) sum up to kMostBytes or more, a
// lifetime is empty or has not the clocks that the first has, a gap lies
// outside the lifetime or out of order, nothing is left beside the gaps, or a
// fixed offset is negative, above kMostBytes or not aligned. Overlaps of fixed
// buffers are found when they are placed.
absl::Status CheckPlaceProblem(const PlaceProblem& problem);

// The parts of a valid buffer's lifetime in which its bytes are there.
std::vector<Lifetime> Pieces(const Buffer& buffer);

// a <= b on every stream.
bool IsOver(const VectorClock& a, const VectorClock& b);
// True if two buffers may be there at once.
bool Meet(absl::Span<const Lifetime> a, absl::Span<const Lifetime> b);

// The least multiple of `alignment` that is at least `offset`.
constexpr int64_t AlignUp(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// The highest end; offsets by buffer.
Bytes HeightOf(const PlaceProblem& problem, absl::Span<const Bytes> offsets);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_PROBLEM_H_
