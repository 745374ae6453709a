#include "planner/place_search.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/place_tree.h"

namespace ebbtide {
namespace {

// Nodes of the first round for each target and order; doubled by each round.
constexpr int64_t kFirstNodes = 1000;
// The try at the height that would end the search gets so many times the nodes
// of any other.
constexpr int64_t kLastShare = 8;

// The unit of all offsets of canonical placements: sizes and fixed offsets are
// multiples of it, and alignments that are not divide it.
int64_t UnitOf(const PlaceProblem& problem) {
  int64_t unit = 0;
  for (const Buffer& b : problem.buffers) {
    unit = std::gcd(unit, Count(b.size));
    if (b.offset) unit = std::gcd(unit, Count(*b.offset));
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Buffer& b : problem.buffers) {
      const int64_t alignment = Count(b.alignment);
      if (unit % alignment == 0 || alignment % unit == 0) continue;
      unit = std::gcd(unit, alignment);
      changed = true;
    }
  }
  return unit;
}

// Heights and offsets in units.
class Searcher {
 public:
  Searcher(const PlaceProblem& problem, int64_t unit, int64_t nodes)
      : tree_(problem, Bytes{unit}), left_(nodes) {}

  // From `height`, which there is a placement of, down to `enough`.
  void Run(int64_t height, int64_t least, int64_t enough) {
    height_ = height;
    least_ = least;
    for (int64_t nodes = kFirstNodes; !IsDone(enough); nodes *= 2) {
      Round(enough, nodes);
    }
  }

  int64_t height() const { return height_; }
  int64_t least() const { return least_; }
  int64_t left() const { return left_; }
  // Offsets found, by buffer; empty if none were.
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  bool IsDone(int64_t enough) const {
    return left_ == 0 || height_ <= std::max(least_, enough);
  }

  // The least height first, as it would end the search; then halves of what
  // lies between the best and what has been given up on in this round.
  void Round(int64_t enough, int64_t nodes) {
    int64_t low = std::max(least_, enough);
    int64_t target = low;
    while (!IsDone(enough) && low < height_) {
      const bool last = target == std::max(least_, enough);
      const PlaceTree::Answer answer =
          Try(target, last ? kLastShare * nodes : nodes);
      if (answer != PlaceTree::Answer::kFound) low = target + 1;
      if (answer == PlaceTree::Answer::kNone) least_ = std::max(least_, low);
      if (low > least_ && height_ - low <= height_ / 1024) return;
      target = low + (height_ - 1 - low) / 2;
    }
  }

  PlaceTree::Answer Try(int64_t capacity, int64_t nodes) {
    for (TreeOrder order : kTreeOrders) {
      const auto answer = tree_.Search(capacity, order, std::min(nodes, left_));
      left_ -= tree_.nodes();
      if (answer == PlaceTree::Answer::kFound) Keep();
      if (answer != PlaceTree::Answer::kUnknown || left_ == 0) return answer;
    }
    return PlaceTree::Answer::kUnknown;
  }

  void Keep() {
    offsets_.assign(tree_.offsets().begin(), tree_.offsets().end());
    height_ = tree_.Height();
  }

  PlaceTree tree_;
  int64_t left_;  // nodes
  int64_t height_ = 0;
  int64_t least_ = 0;
  std::vector<int64_t> offsets_;
};

int64_t UpToUnits(Bytes bytes, int64_t unit) {
  return (Count(bytes) + unit - 1) / unit;
}

}  // namespace

SearchResult SearchPlacement(const PlaceProblem& problem,
                             const Placement& first, Bytes least, Bytes enough,
                             int64_t nodes) {
  SearchResult result = {.placement = first, .least = least};
  if (problem.buffers.empty()) return result;
  const int64_t unit = UnitOf(problem);
  Searcher searcher(problem, unit, nodes);
  searcher.Run(UpToUnits(first.height, unit), UpToUnits(least, unit),
               Count(enough) / unit);
  result.nodes = nodes - searcher.left();
  result.least = std::max(least, Bytes{searcher.least() * unit});
  if (searcher.offsets().empty()) return result;
  for (size_t id = 0; id < problem.buffers.size(); ++id) {
    result.placement.offsets[id] = Bytes{searcher.offsets()[id] * unit};
  }
  result.placement.height = HeightOf(problem, result.placement.offsets);
  return result;
}

}  // namespace ebbtide
