#include "planner/min_peak.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "planner/chain_actions.h"

namespace ebbtide {
namespace {

std::vector<int64_t> SumsOf(absl::Span<const int64_t> sizes) {
  std::vector<int64_t> sums;
  int64_t sum = 0;
  for (int64_t size : sizes) sums.push_back(sum += size);
  return sums;
}

std::vector<int> Follow(const std::vector<int>& next) {
  std::vector<int> path = {0};
  while (path.back() + 1 < static_cast<int>(next.size())) {
    path.push_back(next[path.back()]);
  }
  return path;
}

// The largest of d[i..j] for windows whose both ends only move to the left. A
// size goes when one at least as large enters on its left: that one stays for
// longer. Several right ends read one list.
class SlidingMax {
 public:
  explicit SlidingMax(absl::Span<const int64_t> sizes) : sizes_(sizes) {}

  void Enter(int i) {
    while (!list_.empty() && sizes_[list_.back()] <= sizes_[i]) {
      list_.pop_back();
    }
    for (size_t& reader : readers_) reader = std::min(reader, list_.size());
    list_.push_back(i);
  }

  // `end` is 0 or 1, which of the two j is.
  int64_t Within(int j, int end) {
    size_t& reader = readers_[end];
    while (list_[reader] > j) ++reader;
    return sizes_[list_[reader]];
  }

 private:
  const absl::Span<const int64_t> sizes_;
  std::vector<int> list_;       // places from right to left, sizes falling
  size_t readers_[2] = {0, 0};  // where the ends were found last
};

// The layers that can be the best next checkpoint of those to come. Among two,
// the right one has the larger U and the smaller M: see Enter(). So the best is
// where U first reaches M, or the one before; that place only moves left, and
// the layers right of it are dropped.
class NextCheckpoints {
 public:
  explicit NextCheckpoints(absl::Span<const int64_t> sizes)
      : sizes_(sizes), sums_(SumsOf(sizes)), maxima_(sizes) {}

  void Enter(int j, int64_t peak) {
    maxima_.Enter(j);
    // Where U(i, j) > U(i, front) for one i, what lies between is less than
    // d[j] in all, so it is so for every i, and M(front) <= M(j): replace j by
    // `front` on j's own path.
    if (!list_.empty() && Reach(j) > Reach(list_.front().layer)) return;
    while (!list_.empty() && list_.front().peak >= peak) list_.pop_front();
    list_.push_front({j, peak});
  }

  // For layer i, which is left of all that entered. Returns M(i), next in
  // `next`.
  int64_t Best(int i, int* next) {
    maxima_.Enter(i);
    while (list_.size() > 1) {
      const Entry& second = list_[list_.size() - 2];
      if (Segment(i, second.layer, 1) < second.peak) break;
      list_.pop_back();
    }
    const Entry& last = list_.back();
    int64_t best = std::max(last.peak, Segment(i, last.layer, 0));
    *next = last.layer;
    if (list_.size() > 1) {
      const Entry& second = list_[list_.size() - 2];
      if (second.peak < best) {
        best = second.peak;  // its U is less
        *next = second.layer;
      }
    }
    return sizes_[i] + best;
  }

 private:
  struct Entry {
    int layer;
    int64_t peak;  // M
  };

  int64_t Reach(int j) const { return sums_[j] + sizes_[j]; }
  int64_t Segment(int i, int j, int end) {
    return Reach(j) - sums_[i] + maxima_.Within(j, end);
  }

  const absl::Span<const int64_t> sizes_;
  const std::vector<int64_t> sums_;
  SlidingMax maxima_;
  std::deque<Entry> list_;  // ascending layers, descending peaks
};

// Least sum of checkpoints whose neighbours i, j have j <= reach(i), or a
// negative number; `next` is written where it is not.
template <class Reach>
int64_t LeastSum(absl::Span<const int64_t> sizes, const Reach& reach,
                 std::vector<int>* next) {
  const int n = static_cast<int>(sizes.size());
  std::vector<int64_t> sum(n);
  std::deque<int> least;  // ascending layers of descending sums
  sum[n - 1] = sizes[n - 1];
  int right = n - 1;
  for (int i = n - 2; i >= 0; --i) {
    while (!least.empty() && sum[least.front()] >= sum[i + 1]) {
      least.pop_front();
    }
    least.push_front(i + 1);
    right = reach(i, right);
    while (!least.empty() && least.back() > right) least.pop_back();
    if (least.empty()) return -1;
    (*next)[i] = least.back();
    sum[i] = sizes[i] + sum[least.back()];
  }
  return sum[0];
}

}  // namespace

MinPeakResult MinPeak(absl::Span<const int64_t> sizes) {
  const int n = static_cast<int>(sizes.size());
  std::vector<int> next(n, 0);
  NextCheckpoints candidates(sizes);
  int64_t peak = sizes[n - 1];
  for (int i = n - 2; i >= 0; --i) {
    candidates.Enter(i + 1, peak);
    peak = candidates.Best(i, &next[i]);
  }
  return {peak, Follow(next)};
}

MinPeakResult MinPeakHeld(absl::Span<const int64_t> sizes) {
  const int n = static_cast<int>(sizes.size());
  if (n == 1) return {sizes[0], {0}};
  const std::vector<int64_t> sums = SumsOf(sizes);
  std::vector<int64_t> heights(static_cast<size_t>(n) * n);  // H
  std::vector<int64_t> limits;
  for (int i = 0; i < n; ++i) {
    int64_t most = sizes[i];
    for (int j = i + 1; j < n; ++j) {
      most = std::max(most, sizes[j]);
      heights[static_cast<size_t>(i) * n + j] = sums[j] - sums[i] + most;
      limits.push_back(sums[j] - sums[i] + most);
    }
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  MinPeakResult best{std::numeric_limits<int64_t>::max(), {}};
  std::vector<int> next(n, 0);
  for (int64_t limit : limits) {
    if (limit >= best.peak) break;
    // H grows with j and as i falls, so reaches only move left.
    const auto reach = [&](int i, int j) {
      while (j > i && heights[static_cast<size_t>(i) * n + j] > limit) --j;
      return j;
    };
    const int64_t sum = LeastSum(sizes, reach, &next);
    if (sum >= 0 && sum + limit < best.peak) {
      best = {sum + limit, Follow(next)};
    }
  }
  return best;
}

std::vector<int64_t> LayerSizes(const Chain& chain) {
  std::vector<int64_t> sizes;
  for (Bytes size : chain.xb) sizes.push_back(Count(size));
  return sizes;
}

std::vector<ChainAction> CheckpointPlan(const Chain& chain,
                                        absl::Span<const int> checkpoints) {
  ChainActions actions;
  const int segments = static_cast<int>(checkpoints.size()) - 1;
  for (int i = 0; i < checkpoints[segments - 1]; ++i) {
    EmitForward(i, 0, &actions);
  }
  for (int k = segments - 1; k >= 0; --k) {
    const int end = checkpoints[k + 1];
    for (int i = checkpoints[k]; i < end; ++i) EmitForward(i, 1, &actions);
    if (k == segments - 1) actions.push_back({ChainAction::Do::kLoss});
    for (int i = end - 1; i >= checkpoints[k]; --i) EmitBackward(i, &actions);
  }
  return AddFrees(Stages(chain), actions);
}

}  // namespace ebbtide
