#include "planner/interval_index.h"

#include <algorithm>
#include <utility>

#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// Entries that are looked at in one go where no room can be found between them.
constexpr int kStride = 16;

template <class Array>
void MoveUp(Array* values, int at, int count) {
  std::move_backward(values->begin() + at, values->begin() + count,
                     values->begin() + count + 1);
}

}  // namespace

void TakenList::Block::Insert(int at, Positions when, int64_t low,
                              int64_t high) {
  MoveUp(&from, at, count);
  MoveUp(&to, at, count);
  MoveUp(&begin, at, count);
  MoveUp(&end, at, count);
  from[at] = when.begin;
  to[at] = when.end;
  begin[at] = low;
  end[at] = high;
  ++count;
}

std::unique_ptr<TakenList::Block> TakenList::Block::SplitOff() {
  auto upper = std::make_unique<Block>();
  const int half = count / 2;
  std::copy(from.begin() + half, from.begin() + count, upper->from.begin());
  std::copy(to.begin() + half, to.begin() + count, upper->to.begin());
  std::copy(begin.begin() + half, begin.begin() + count, upper->begin.begin());
  std::copy(end.begin() + half, end.begin() + count, upper->end.begin());
  upper->count = count - half;
  count = half;
  return upper;
}

void TakenList::Add(Positions when, int64_t begin, int64_t end) {
  if (blocks_.empty()) blocks_.push_back(std::make_unique<Block>());
  // The last block that begins no higher, or the first.
  const auto home = std::partition_point(blocks_.begin() + 1, blocks_.end(),
                                         [begin](const auto& block) {
                                           return block->begin[0] <= begin;
                                         }) -
                    1;
  Block& block = **home;
  const auto first = block.begin.begin();
  const auto at = std::upper_bound(first, first + block.count, begin) - first;
  block.Insert(static_cast<int>(at), when, begin, end);
  if (block.count == kMostInBlock) blocks_.insert(home + 1, block.SplitOff());
}

int64_t TakenList::LowestRoom(absl::Span<const Positions> when, int64_t size,
                              int64_t alignment, int64_t* work) const {
  int64_t at = 0;
  for (const auto& held : blocks_) {
    const Block& block = *held;
    int k = 0;
    while (k < block.count) {
      // Addresses rise: from here on nothing reaches down to what is asked for.
      if (block.begin[k] >= at + size) return at;
      const int last = std::min(k + kStride, block.count);
      int stop = k + 1;
      while (stop < last && block.begin[stop] < at + size) ++stop;
      int64_t top = at;
      for (const Positions& part : when) {
        for (int i = k; i < stop; ++i) {
          const bool meets = std::max(block.from[i], part.begin) <
                             std::min(block.to[i], part.end);
          top = std::max(top, meets ? block.end[i] : 0);
        }
      }
      if (top > at) at = alignment == 1 ? top : AlignUp(top, alignment);
      *work += stop - k;
      k = stop;
    }
  }
  return at;
}

IntervalIndex::IntervalIndex(int positions) {
  for (int parts : {64, 8}) {
    const int step = positions / (2 * parts);
    if (step == 0) continue;
    Level level{.step = step, .windows = {}};
    level.windows.resize(positions / step + 1);
    levels_.push_back(std::move(level));
  }
}

// Window w of a level covers [w * step, (w + 2) * step).
void IntervalIndex::Take(absl::Span<const Positions> when, int64_t begin,
                         int64_t end) {
  for (const Positions& part : when) {
    all_.Add(part, begin, end);
    for (Level& level : levels_) {
      const int first = std::max(0, part.begin / level.step - 1);
      const int last = (part.end - 1) / level.step;
      for (int w = first; w <= last; ++w)
        level.windows[w].Add(part, begin, end);
    }
  }
}

int64_t IntervalIndex::LowestRoom(absl::Span<const Positions> when,
                                  int64_t size, int64_t alignment,
                                  int64_t* work) const {
  for (const Level& level : levels_) {
    const int w = when.front().begin / level.step;
    if (when.back().end > (w + 2) * level.step) continue;
    return level.windows[w].LowestRoom(when, size, alignment, work);
  }
  return all_.LowestRoom(when, size, alignment, work);
}

}  // namespace ebbtide
