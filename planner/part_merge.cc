#include "planner/part_merge.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 2;

// A choice for the first parts of a row.
struct Point {
  int64_t bytes = 0;
  Time time = 0;
  int64_t forward = 0;
  int64_t backward = 0;
  int from = -1;  // the choice for one part less
  int option = -1;
};

// Leaves what no other beats, by rising bytes, and of it one in each of `most`
// equal steps of bytes.
void KeepFront(size_t most, std::vector<Point>* points) {
  std::sort(points->begin(), points->end(), [](const Point& a, const Point& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.time < b.time;
  });
  size_t count = 0;
  for (const Point& point : *points) {
    if (count > 0 && (*points)[count - 1].time <= point.time) continue;
    (*points)[count++] = point;
  }
  points->resize(count);
  if (count <= most) return;
  const double first = static_cast<double>(points->front().bytes);
  const double step =
      (static_cast<double>(points->back().bytes) - first) / (most - 2);
  const auto bucket = [&](size_t k) {
    return static_cast<int64_t>(
        (static_cast<double>((*points)[k].bytes) - first) / step);
  };
  // The fastest of each step, and the smallest of all.
  size_t kept = 1;
  for (size_t k = 1; k < count; ++k) {
    if (k + 1 < count && bucket(k) == bucket(k + 1)) continue;
    (*points)[kept++] = (*points)[k];
  }
  points->resize(kept);
}

std::vector<Point> Extend(const std::vector<Point>& front, const RowPart& part,
                          const RowLimits& limits) {
  std::vector<Point> next;
  const std::vector<PartOption>& options = part.menu->options;
  for (size_t f = 0; f < front.size(); ++f) {
    const Point& point = front[f];
    if (limits.again >= 0 &&
        point.bytes + part.menu->rerun_peak > limits.again) {
      continue;
    }
    for (size_t k = 0; k < options.size(); ++k) {
      const PartOption& option = options[k];
      Point to;
      to.forward = std::max(point.forward,
                            point.bytes + part.base_other + option.forward);
      to.backward = std::max(point.backward,
                             point.bytes + part.base_before + option.backward);
      if (to.forward > limits.forward || to.backward > limits.backward) {
        continue;
      }
      to.bytes = point.bytes + option.save;
      to.time = point.time + option.time;
      to.from = static_cast<int>(f);
      to.option = static_cast<int>(k);
      next.push_back(to);
    }
  }
  return next;
}

// Limits that a row can just keep, and those it never meets.
class Range {
 public:
  Range(const std::vector<RowPart>& row, size_t most) : row_(row), most_(most) {
    for (const RowPart& part : row) {
      int64_t save = 0;
      int64_t backward = 0;
      for (const PartOption& option : part.menu->options) {
        save = std::max(save, option.save);
        backward = std::max(backward, option.backward);
      }
      high_ = std::max(high_, saved_ + part.base_before + backward);
      saved_ += save;
    }
  }

  int64_t high() const { return high_; }

  // Within one part in 64 of the range.
  int64_t Low() const {
    int64_t low = 0;
    int64_t high = high_;
    for (int round = 0; round < 6; ++round) {
      const int64_t middle = low + (high - low) / 2;
      if (MergeRow(row_, {kNoLimit, middle, -1}, most_).empty()) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return high;
  }

 private:
  const std::vector<RowPart>& row_;
  const size_t most_;
  int64_t saved_ = 0;
  int64_t high_ = 0;
};

int64_t RerunPeak(const std::vector<RowPart>& row) {
  int64_t peak = 0;
  for (const RowPart& part : row) {
    peak = std::max(peak, part.menu->rerun_peak);
  }
  return peak;
}

// The fastest way to save nothing: to run all again and go on from there.
void AddAgain(const std::vector<RowPart>& row, const RowFacts& facts,
              int64_t backward, size_t most, std::vector<PartOption>* options) {
  const RowLimits limits{kNoLimit, backward,
                         std::max<int64_t>(0, backward - facts.first_before)};
  const std::vector<PartOption> merged = MergeRow(row, limits, most);
  if (merged.empty()) return;
  PartOption again = *std::min_element(
      merged.begin(), merged.end(),
      [](const PartOption& a, const PartOption& b) { return a.time < b.time; });
  again.save = facts.outside_save;
  again.forward = 0;
  for (const RowPart& part : row) {
    int64_t least = kNoLimit;
    for (const PartOption& option : part.menu->options) {
      least = std::min(least, option.forward);
    }
    again.forward =
        std::max(again.forward, facts.outside_save + part.base_other + least);
  }
  again.backward =
      std::max(again.backward, facts.first_before + RerunPeak(row));
  again.time += facts.again_time;
  again.again = true;
  options->push_back(std::move(again));
}

}  // namespace

std::vector<PartOption> MergeRow(const std::vector<RowPart>& row,
                                 const RowLimits& limits, size_t most) {
  std::vector<std::vector<Point>> fronts(1, std::vector<Point>(1));
  for (const RowPart& part : row) {
    fronts.push_back(Extend(fronts.back(), part, limits));
    KeepFront(most, &fronts.back());
  }
  std::vector<PartOption> merged;
  for (const Point& last : fronts.back()) {
    PartOption option;
    option.save = last.bytes;
    option.forward = last.forward;
    option.backward = last.backward;
    option.time = last.time;
    option.children.resize(row.size());
    const Point* point = &last;
    for (size_t k = row.size(); k-- > 0;) {
      option.children[k] = point->option;
      point = &fronts[k][point->from];
    }
    merged.push_back(std::move(option));
  }
  return merged;
}

PartMenu MergeMenu(const std::vector<RowPart>& row, const RowFacts& facts,
                   const MergeEffort& effort) {
  const Range range(row, effort.front);
  const int64_t low = range.Low();
  PartMenu menu;
  for (int k = 0; k < effort.limits; ++k) {
    const double x = static_cast<double>(k) / std::max(1, effort.limits - 1);
    const int64_t backward =
        low + static_cast<int64_t>((range.high() - low) * x * x);
    for (PartOption& option :
         MergeRow(row, {kNoLimit, backward, -1}, effort.front)) {
      menu.options.push_back(std::move(option));
    }
    Thin(2 * effort.options, &menu.options);
    AddAgain(row, facts, backward, effort.front, &menu.options);
  }
  Thin(effort.options, &menu.options);
  menu.rerun_peak = RerunPeak(row);
  return menu;
}

}  // namespace ebbtide
