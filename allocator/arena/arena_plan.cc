#include "allocator/arena/arena_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// Which slot was asked for last, by address.
class LastAsked {
 public:
  // Slot `slot` takes [begin, end). Calls back with each slot that was last at
  // some of it.
  template <typename Visit>
  void Take(int slot, int64_t begin, int64_t end, Visit visit) {
    Cut(begin);
    Cut(end);
    const auto first = parts_.lower_bound(begin);
    const auto last = parts_.lower_bound(end);
    for (auto part = first; part != last; ++part) {
      if (part->second >= 0) visit(part->second);
    }
    parts_.erase(first, last);
    parts_[begin] = slot;
  }

 private:
  // A part begins at `at`.
  void Cut(int64_t at) {
    const auto next = parts_.upper_bound(at);
    parts_.try_emplace(at,
                       next == parts_.begin() ? -1 : std::prev(next)->second);
  }

  std::map<int64_t, int> parts_;  // by begin; to the next one's
};

absl::Status CheckRequest(const PlannedRequest& request, size_t number) {
  const std::string where = absl::StrCat("request ", number, ": ");
  if (request.size <= Bytes{0}) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, "expected a positive size, got ", Count(request.size)));
  }
  if (request.offset != kUnplaced &&
      (request.offset < 0 || request.offset % kArenaGrain != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "expected an offset in steps of ", kArenaGrain,
                     ", got ", request.offset));
  }
  if (request.stream < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, "expected a stream's number, got ", request.stream));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArenaPlan> ArenaPlan::Make(
    absl::Span<const PlannedRequest> step) {
  ArenaPlan plan;
  for (const PlannedRequest& request : step) {
    const absl::Status valid = CheckRequest(request, plan.slots_.size());
    if (!valid.ok()) return valid;
    Slot slot = {.size = request.size,
                 .stream = request.stream,
                 .offset = request.offset};
    if (slot.offset != kUnplaced) {
      slot.end = AlignUp(request.offset + Count(request.size), kArenaGrain);
    }
    plan.slots_.push_back(slot);
    plan.height_ = std::max(plan.height_, Bytes{slot.end});
  }
  plan.FindSites();
  plan.FindPreceding();
  return plan;
}

void ArenaPlan::FindSites() {
  for (const Slot& slot : slots_) {
    if (slot.offset != kUnplaced) sites_.push_back(slot.offset);
  }
  std::sort(sites_.begin(), sites_.end());
  sites_.erase(std::unique(sites_.begin(), sites_.end()), sites_.end());
  for (Slot& slot : slots_) {
    const auto site =
        std::lower_bound(sites_.begin(), sites_.end(), slot.offset);
    slot.site = static_cast<int>(site - sites_.begin());
  }
}

void ArenaPlan::FindPreceding() {
  LastAsked last;
  const int count = static_cast<int>(slots_.size());
  // The first time round says what is there when the next step begins.
  for (int i = 0; i < count; ++i) {
    if (slots_[i].offset == kUnplaced) continue;
    last.Take(i, slots_[i].offset, slots_[i].end, [](int) {});
  }
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots_[i];
    if (slot.offset == kUnplaced) continue;
    slot.first_preceding = static_cast<int>(preceding_.size());
    last.Take(i, slot.offset, slot.end,
              [&](int other) { preceding_.push_back(other); });
    const auto own = preceding_.begin() + slot.first_preceding;
    std::sort(own, preceding_.end());
    preceding_.erase(std::unique(own, preceding_.end()), preceding_.end());
    slot.last_preceding = static_cast<int>(preceding_.size());
    for (int k = slot.first_preceding; k < slot.last_preceding; ++k) {
      Slot& before = slots_[preceding_[k]];
      before.is_awaited |= before.stream != slot.stream;
    }
  }
}

}  // namespace ebbtide
