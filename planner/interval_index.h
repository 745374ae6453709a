// An index of taken addresses over time: placing in any order asks it for the
// lowest room. Private to the planner.
#ifndef EBBTIDE_PLANNER_INTERVAL_INDEX_H_
#define EBBTIDE_PLANNER_INTERVAL_INDEX_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace ebbtide {

// Half-open, in positions of the index: 0 <= begin < end <= positions.
struct Positions {
  int begin = 0;
  int end = 0;
};

// Taken addresses in ascending order, in blocks.
class TakenList {
 public:
  void Add(Positions when, int64_t begin, int64_t end);
  // As IntervalIndex::LowestRoom; adds the entries looked at to `work`.
  int64_t LowestRoom(absl::Span<const Positions> when, int64_t size,
                     int64_t alignment, int64_t* work) const;

 private:
  static constexpr int kMostInBlock = 128;
  struct Block {
    int count = 0;
    std::array<int, kMostInBlock> from;  // positions
    std::array<int, kMostInBlock> to;
    std::array<int64_t, kMostInBlock> begin;  // addresses
    std::array<int64_t, kMostInBlock> end;

    void Insert(int at, Positions when, int64_t low, int64_t high);
    std::unique_ptr<Block> SplitOff();
  };

  std::vector<std::unique_ptr<Block>> blocks_;
};

// A list for all of time, and lists for windows of an 8th and of a 64th of it,
// which overlap by half: what is short is compared with little else. Asking
// looks at each entry of one list from below upwards until there is room, which
// measured faster than a segment tree of unions of addresses: where sizes
// differ, unions are in nearly as many pieces.
class IntervalIndex {
 public:
  explicit IntervalIndex(int positions);

  void Take(absl::Span<const Positions> when, int64_t begin, int64_t end);
  // The lowest aligned address with `size` bytes that are free at all of these
  // positions. Adds the entries looked at to `work`.
  int64_t LowestRoom(absl::Span<const Positions> when, int64_t size,
                     int64_t alignment, int64_t* work) const;

 private:
  struct Level {
    int step = 1;  // half a window
    std::vector<TakenList> windows;
  };

  TakenList all_;
  std::vector<Level> levels_;  // finest first
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_INTERVAL_INDEX_H_
