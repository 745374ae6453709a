// Small random placement problems, and the least height by trying everything.
#ifndef EBBTIDE_TESTS_PLANNER_PLACE_PROBLEMS_H_
#define EBBTIDE_TESTS_PLANNER_PLACE_PROBLEMS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "planner/place_problem.h"

namespace ebbtide {

struct PlaceKind {
  int most = 6;  // buffers
  int span = 8;  // instants at which buffers begin
  int streams = 1;
  bool gaps = false;
  bool alignments = false;
};

inline PlaceProblem RandomPlaceProblem(uint32_t seed, const PlaceKind& kind) {
  std::mt19937 rng(seed);
  const auto draw = [&rng](int from, int to) {
    return from + static_cast<int>(rng() % (to - from));
  };
  PlaceProblem problem;
  for (int k = draw(1, kind.most + 1); k > 0; --k) {
    Buffer b{.size = Bytes{draw(1, 8)}, .live = {}, .gaps = {}, .offset = {}};
    for (int s = 0; s < kind.streams; ++s) {
      const int begin = draw(0, kind.span);
      b.live.begin.push_back(begin);
      b.live.end.push_back(begin + draw(1, 6));
    }
    const int length = static_cast<int>(b.live.end[0] - b.live.begin[0]);
    if (kind.gaps && kind.streams == 1 && length > 2 && rng() % 2 == 0) {
      const int64_t from = b.live.begin[0] + draw(1, length - 1);
      b.gaps.push_back({{from}, {from + 1}});
    }
    if (kind.alignments) b.alignment = Bytes{draw(1, 5)};
    problem.buffers.push_back(b);
  }
  return problem;
}

// By tick and stream, whose bytes are there: the conflicts of a problem, by
// definition and not by the code under test.
inline bool TestMeet(const Buffer& a, const Buffer& b) {
  const auto parts = [](const Buffer& x) {
    std::vector<Lifetime> out = {x.live};
    for (const Lifetime& gap : x.gaps) {
      const Lifetime last = out.back();
      out.back() = {last.begin, gap.begin};
      out.push_back({gap.end, last.end});
    }
    return out;
  };
  const auto before = [](const VectorClock& x, const VectorClock& y) {
    for (size_t s = 0; s < x.size(); ++s) {
      if (x[s] > y[s]) return false;
    }
    return true;
  };
  for (const Lifetime& p : parts(a)) {
    for (const Lifetime& q : parts(b)) {
      const bool empty = p.begin == p.end || q.begin == q.end;
      if (!empty && !before(p.end, q.begin) && !before(q.end, p.begin)) {
        return true;
      }
    }
  }
  return false;
}

inline void TryPlacing(const PlaceProblem& problem, std::vector<int>* order,
                       std::vector<int64_t>* offsets, int64_t height,
                       int64_t* best) {
  if (height >= *best) return;
  if (order->size() == problem.buffers.size()) {
    *best = height;
    return;
  }
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    if (std::count(order->begin(), order->end(), id) > 0) continue;
    const Buffer& b = problem.buffers[id];
    int64_t offset = 0;
    const auto free = [&](int64_t at) {
      return std::none_of(order->begin(), order->end(), [&](int other) {
        const Buffer& o = problem.buffers[other];
        return TestMeet(b, o) && at < (*offsets)[other] + Count(o.size) &&
               (*offsets)[other] < at + Count(b.size);
      });
    };
    while (offset % Count(b.alignment) != 0 || !free(offset)) ++offset;
    order->push_back(id);
    (*offsets)[id] = offset;
    TryPlacing(problem, order, offsets,
               std::max(height, offset + Count(b.size)), best);
    order->pop_back();
  }
}

// First fit in every order: some order gives the least height, that of an
// optimal placement's offsets, from below upwards.
inline int64_t LeastHeight(const PlaceProblem& problem) {
  int64_t best = int64_t{1} << 40;
  std::vector<int> order;
  std::vector<int64_t> offsets(problem.buffers.size());
  TryPlacing(problem, &order, &offsets, 0, &best);
  return best;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_PLACE_PROBLEMS_H_
