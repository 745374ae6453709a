#include "planner/place_problem.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace ebbtide {
namespace {

template <class... Parts>
absl::Status Wrong(int buffer, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("buffer ", buffer, ": ", parts...));
}

bool IsSpan(const Lifetime& live) {
  return IsOver(live.begin, live.end) && live.begin != live.end;
}

absl::Status CheckTime(int id, const Buffer& b, size_t clocks) {
  if (b.live.begin.size() != clocks || b.live.end.size() != clocks) {
    return Wrong(id, "expected ", clocks, " clocks as in the first lifetime");
  }
  if (!IsSpan(b.live)) {
    return Wrong(id, "expected a lifetime that ends after it begins");
  }
  const VectorClock* last = &b.live.begin;
  for (const Lifetime& gap : b.gaps) {
    if (gap.begin.size() != clocks || gap.end.size() != clocks) {
      return Wrong(id, "expected ", clocks, " clocks in a gap");
    }
    if (!IsSpan(gap)) return Wrong(id, "expected a gap that is not empty");
    if (!IsOver(*last, gap.begin) || !IsOver(gap.end, b.live.end)) {
      return Wrong(id, "expected gaps in order within the lifetime");
    }
    last = &gap.end;
  }
  if (Pieces(b).empty()) return Wrong(id, "expected a life beside its gaps");
  return absl::OkStatus();
}

absl::Status CheckSpace(int id, const Buffer& b) {
  if (Count(b.size) < 1 || Count(b.size) >= kMostBytes) {
    return Wrong(id, "expected a size of at least 1 and below 2^60, got ",
                 Count(b.size));
  }
  if (Count(b.alignment) < 1 || Count(b.alignment) >= kMostBytes) {
    return Wrong(id, "expected an alignment of at least 1 and below 2^60, got ",
                 Count(b.alignment));
  }
  if (!b.offset) return absl::OkStatus();
  const int64_t offset = Count(*b.offset);
  if (offset < 0 || offset >= kMostBytes || offset % Count(b.alignment) != 0) {
    return Wrong(id, "expected an offset of at least 0 that is a multiple of ",
                 Count(b.alignment), ", got ", offset);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlaceProblem(const PlaceProblem& problem) {
  int64_t sum = 0;
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    const Buffer& b = problem.buffers[id];
    const size_t clocks = problem.buffers[0].live.begin.size();
    if (clocks == 0) return Wrong(id, "expected at least one clock");
    if (auto s = CheckSpace(id, b); !s.ok()) return s;
    if (auto s = CheckTime(id, b, clocks); !s.ok()) return s;
    // No term reaches 2^60, so the sum cannot overflow before it is refused.
    sum += Count(b.size) + Count(b.alignment);
    if (sum >= kMostBytes) return Wrong(id, "the sizes up to it exceed 2^60");
  }
  return absl::OkStatus();
}

std::vector<Lifetime> Pieces(const Buffer& buffer) {
  std::vector<Lifetime> pieces;
  VectorClock begin = buffer.live.begin;
  for (const Lifetime& gap : buffer.gaps) {
    if (begin != gap.begin) pieces.push_back({begin, gap.begin});
    begin = gap.end;
  }
  if (begin != buffer.live.end) pieces.push_back({begin, buffer.live.end});
  return pieces;
}

bool IsOver(const VectorClock& a, const VectorClock& b) {
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

bool Meet(absl::Span<const Lifetime> a, absl::Span<const Lifetime> b) {
  for (const Lifetime& x : a) {
    for (const Lifetime& y : b) {
      if (!IsOver(x.end, y.begin) && !IsOver(y.end, x.begin)) return true;
    }
  }
  return false;
}

Bytes HeightOf(const PlaceProblem& problem, absl::Span<const Bytes> offsets) {
  Bytes height{};
  for (size_t id = 0; id < offsets.size(); ++id) {
    height = std::max(height, offsets[id] + problem.buffers[id].size);
  }
  return height;
}

}  // namespace ebbtide
