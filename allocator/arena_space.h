// Where the addresses of a plan lie in memory that is not in one piece.
//
// A plan counts its offsets from 0. They go through *runs* of memory, one after
// the other, with a *wall* of kArenaGrain behind each, in which nothing may
// lie, so that no block is in two runs.
//
// Plain data; offsets and sizes in whole kArenaGrain.
#ifndef EBBTIDE_ALLOCATOR_ARENA_SPACE_H_
#define EBBTIDE_ALLOCATOR_ARENA_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr int64_t kArenaGrain = 512;

// Contiguous memory.
struct ArenaRun {
  char* base = nullptr;
  Bytes size{};

  char* end() const { return base + Count(size); }
};

class ArenaSpace {
 public:
  ArenaSpace() = default;
  // One run, so long that no plan ends behind it.
  ArenaSpace(char* base);  // NOLINT(google-explicit-constructor)

  // Behind those before.
  void Append(const ArenaRun& run);

  // Where the next run that is appended begins.
  int64_t next() const;
  // The number of the run that the offset is in, and a run's offsets.
  std::optional<size_t> RunAt(int64_t offset) const;
  int64_t BeginOf(size_t run) const { return begins_[run]; }
  int64_t EndOf(size_t run) const {
    return begins_[run] + Count(runs_[run].size);
  }
  // The address of an offset, which is in a run or where one ends.
  char* At(int64_t offset) const;
  // Of an address; nullopt where that is in no run. O(log runs).
  std::optional<int64_t> OffsetOf(const void* address) const;
  absl::Span<const ArenaRun> runs() const { return runs_; }
  // The one that the address is in, or nullptr.
  const ArenaRun* RunOf(const void* address) const;
  // Offsets at which the walls behind the runs begin, ascending.
  std::vector<int64_t> Walls() const;
  // Of all runs.
  Bytes size() const;

 private:
  std::vector<ArenaRun> runs_;
  std::vector<int64_t> begins_;     // offsets of them
  std::vector<size_t> by_address_;  // runs
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_SPACE_H_
