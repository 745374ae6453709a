#include "planner/place_greedy.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "planner/check.h"
#include "planner/place_bound.h"

namespace ebbtide {
namespace {

int Streams(const PlaceProblem& problem) {
  return problem.buffers.empty()
             ? 1
             : static_cast<int>(problem.buffers[0].live.begin.size());
}

// Time on all streams together in which the bytes are there.
double LengthOf(const Buffer& buffer) {
  double length = 0;
  for (const Lifetime& live : Pieces(buffer)) {
    for (size_t k = 0; k < live.begin.size(); ++k) {
      length += static_cast<double>(live.end[k] - live.begin[k]);
    }
  }
  return length;
}

// The greatest value within half-open ranges, by tables of powers of two.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<Bytes> values) {
    rows_.push_back(std::move(values));
    for (size_t width = 1; 2 * width <= rows_[0].size(); width *= 2) {
      const std::vector<Bytes>& below = rows_.back();
      std::vector<Bytes> row(rows_[0].size() - 2 * width + 1);
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = std::max(below[i], below[i + width]);
      }
      rows_.push_back(std::move(row));
    }
  }
  Bytes Of(size_t begin, size_t end) const {
    size_t level = 0;
    while ((size_t{2} << level) <= end - begin) ++level;
    const std::vector<Bytes>& row = rows_[level];
    return std::max(row[begin], row[end - (size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<Bytes>> rows_;
};

void AddCrowds(const PlaceProblem& problem, int stream,
               std::vector<Bytes>* crowds) {
  const std::vector<LiveStep> steps = LiveBytes(problem, stream);
  std::vector<Bytes> live;
  live.reserve(steps.size());
  for (const LiveStep& step : steps) live.push_back(step.live);
  const RangeMaximum most(std::move(live));
  const auto rank = [&steps](int64_t at) {
    return std::lower_bound(
               steps.begin(), steps.end(), at,
               [](const LiveStep& s, int64_t t) { return s.begin < t; }) -
           steps.begin();
  };
  for (size_t id = 0; id < crowds->size(); ++id) {
    for (const Lifetime& piece : Pieces(problem.buffers[id])) {
      const auto begin = rank(piece.begin[stream]);
      const auto end = rank(piece.end[stream]);
      if (begin == end) continue;
      (*crowds)[id] = std::max((*crowds)[id], most.Of(begin, end));
    }
  }
}

struct Keys {
  double first = 0;
  double second = 0;
  int id = 0;
};

// Both ascend.
Keys KeysOf(const Buffer& b, int id, PlaceOrder order, Bytes crowd) {
  const auto size = static_cast<double>(Count(b.size));
  const auto most = static_cast<double>(Count(crowd));
  const auto sum = [](const VectorClock& clock) {
    return std::accumulate(clock.begin(), clock.end(), 0.0);
  };
  switch (order) {
    case PlaceOrder::kSize:
      return {-size, -LengthOf(b), id};
    case PlaceOrder::kArea:
      return {-size * LengthOf(b), 0, id};
    case PlaceOrder::kLength:
      return {-LengthOf(b), -size, id};
    case PlaceOrder::kBegin:
      return {sum(b.live.begin), -size, id};
    case PlaceOrder::kEnd:
      return {-sum(b.live.end), -size, id};
    case PlaceOrder::kCrowd:
      return {-most, -size, id};
    case PlaceOrder::kCrowdLength:
      return {-most, -LengthOf(b), id};
  }
  EBBTIDE_CHECK(false);
}

}  // namespace

absl::string_view NameOf(PlaceOrder order) {
  switch (order) {
    case PlaceOrder::kSize:
      return "size";
    case PlaceOrder::kArea:
      return "area";
    case PlaceOrder::kLength:
      return "length";
    case PlaceOrder::kBegin:
      return "begin";
    case PlaceOrder::kEnd:
      return "end";
    case PlaceOrder::kCrowd:
      return "crowd";
    case PlaceOrder::kCrowdLength:
      return "crowd-length";
  }
  EBBTIDE_CHECK(false);
}

std::vector<Bytes> Crowds(const PlaceProblem& problem) {
  std::vector<Bytes> crowds(problem.buffers.size());
  if (crowds.empty()) return crowds;
  for (int stream = 0; stream < Streams(problem); ++stream) {
    AddCrowds(problem, stream, &crowds);
  }
  return crowds;
}

std::vector<int> InOrder(const PlaceProblem& problem, PlaceOrder order) {
  const bool crowded =
      order == PlaceOrder::kCrowd || order == PlaceOrder::kCrowdLength;
  const std::vector<Bytes> crowds =
      crowded ? Crowds(problem) : std::vector<Bytes>(problem.buffers.size());
  std::vector<Keys> keys;
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    keys.push_back(KeysOf(problem.buffers[id], id, order, crowds[id]));
  }
  std::sort(keys.begin(), keys.end(), [](const Keys& a, const Keys& b) {
    return std::tie(a.first, a.second, a.id) <
           std::tie(b.first, b.second, b.id);
  });
  std::vector<int> ids;
  ids.reserve(keys.size());
  for (const Keys& key : keys) ids.push_back(key.id);
  return ids;
}

GreedyPlacer::GreedyPlacer(const PlaceProblem& problem)
    : problem_(problem), offsets_(problem.buffers.size()) {
  for (const Buffer& b : problem.buffers) pieces_.push_back(Pieces(b));
  if (Streams(problem) > 1) return;
  // Two pieces that meet do so where the later of them begins, so these
  // instants are all that matter.
  std::vector<int64_t> begins;
  for (const auto& pieces : pieces_) {
    for (const Lifetime& piece : pieces) begins.push_back(piece.begin[0]);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const auto rank = [&begins](int64_t at) {
    return static_cast<int>(std::lower_bound(begins.begin(), begins.end(), at) -
                            begins.begin());
  };
  for (const auto& pieces : pieces_) {
    when_.emplace_back();
    for (const Lifetime& piece : pieces) {
      when_.back().push_back({rank(piece.begin[0]), rank(piece.end[0])});
    }
  }
  pieces_.clear();
  positions_ = static_cast<int>(begins.size());
  index_.emplace(positions_);
}

int64_t GreedyPlacer::LowestRoom(int id) {
  const Buffer& b = problem_.buffers[id];
  const int64_t size = Count(b.size);
  const int64_t alignment = Count(b.alignment);
  if (index_) return index_->LowestRoom(when_[id], size, alignment, &work_);
  // All that it meets, as if at one instant.
  constexpr Positions kThen = {0, 1};
  TakenList taken;
  work_ += static_cast<int64_t>(placed_.size());
  for (int other : placed_) {
    if (!Meet(pieces_[id], pieces_[other])) continue;
    const Bytes end = offsets_[other] + problem_.buffers[other].size;
    taken.Add(kThen, Count(offsets_[other]), Count(end));
  }
  return taken.LowestRoom({&kThen, 1}, size, alignment, &work_);
}

void GreedyPlacer::Take(int id, int64_t offset) {
  offsets_[id] = Bytes{offset};
  if (index_) {
    index_->Take(when_[id], offset, offset + Count(problem_.buffers[id].size));
  } else {
    placed_.push_back(id);
  }
}

Placement GreedyPlacer::Place(absl::Span<const int> order) {
  if (index_) index_.emplace(positions_);
  placed_.clear();
  const auto& buffers = problem_.buffers;
  for (int id = 0; id < static_cast<int>(buffers.size()); ++id) {
    if (buffers[id].offset) Take(id, Count(*buffers[id].offset));
  }
  for (int id : order) {
    if (!buffers[id].offset) Take(id, LowestRoom(id));
  }
  return {.offsets = offsets_, .height = HeightOf(problem_, offsets_)};
}

}  // namespace ebbtide
