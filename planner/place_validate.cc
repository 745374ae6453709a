#include "planner/place_validate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

template <class... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}

// The instants at which the bytes come and go by turns: there from the first to
// the second, gone to the third, and so on.
std::vector<const VectorClock*> TurnsOf(const Buffer& b) {
  std::vector<const VectorClock*> turns = {&b.live.begin};
  for (const Lifetime& gap : b.gaps) {
    turns.push_back(&gap.begin);
    turns.push_back(&gap.end);
  }
  turns.push_back(&b.live.end);
  return turns;
}

bool NoLater(const VectorClock& a, const VectorClock& b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

bool BothThere(const Buffer& a, const Buffer& b) {
  const auto ours = TurnsOf(a);
  const auto theirs = TurnsOf(b);
  for (size_t i = 0; i < ours.size(); i += 2) {
    for (size_t j = 0; j < theirs.size(); j += 2) {
      const bool empty =
          *ours[i] == *ours[i + 1] || *theirs[j] == *theirs[j + 1];
      if (!empty && !NoLater(*ours[i + 1], *theirs[j]) &&
          !NoLater(*theirs[j + 1], *ours[i])) {
        return true;
      }
    }
  }
  return false;
}

absl::Status CheckOne(int id, const Buffer& b, int64_t offset) {
  if (offset < 0) return Broken("buffer ", id, " lies at ", offset);
  if (offset % Count(b.alignment) != 0) {
    return Broken("buffer ", id, " lies at ", offset, ", no multiple of ",
                  Count(b.alignment));
  }
  if (b.offset && Count(*b.offset) != offset) {
    return Broken("buffer ", id, " lies at ", offset, ", it is fixed at ",
                  Count(*b.offset));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePlacement(const PlaceProblem& problem,
                               const Placement& placement) {
  const auto& buffers = problem.buffers;
  const auto& offsets = placement.offsets;
  if (offsets.size() != buffers.size()) {
    return Broken(offsets.size(), " offsets for ", buffers.size(), " buffers");
  }
  int64_t top = 0;
  for (size_t id = 0; id < buffers.size(); ++id) {
    const int64_t offset = Count(offsets[id]);
    if (auto s = CheckOne(static_cast<int>(id), buffers[id], offset); !s.ok())
      return s;
    top = std::max(top, offset + Count(buffers[id].size));
  }
  if (top != Count(placement.height)) {
    return Broken("the height is ", Count(placement.height),
                  ", the highest end ", top);
  }
  std::vector<int> upwards(buffers.size());
  std::iota(upwards.begin(), upwards.end(), 0);
  std::sort(upwards.begin(), upwards.end(),
            [&](int a, int b) { return offsets[a] < offsets[b]; });
  for (size_t i = 0; i < upwards.size(); ++i) {
    const int a = upwards[i];
    const Bytes end = offsets[a] + buffers[a].size;
    for (size_t j = i + 1; j < upwards.size(); ++j) {
      const int b = upwards[j];
      if (offsets[b] >= end) break;
      if (BothThere(buffers[a], buffers[b])) {
        return Broken("buffers ", std::min(a, b), " and ", std::max(a, b),
                      " are there at once, both at ", Count(offsets[b]));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ebbtide
