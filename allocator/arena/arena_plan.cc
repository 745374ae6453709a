#include "allocator/arena/arena_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/check.h"
#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// The slot last asked for at each address.
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

}  // namespace

ArenaPlan ArenaPlan::Make(absl::Span<const PlannedRequest> step, Bytes page) {
  ArenaPlan plan;
  plan.page_ = Count(page);
  for (const PlannedRequest& request : step) {
    EBBTIDE_CHECK(request.size > Bytes{0} && request.stream >= 0);
    Slot slot = {.size = request.size,
                 .stream = request.stream,
                 .offset = request.offset};
    if (slot.offset != kUnplaced && request.pages.empty()) {
      slot.end = AlignUp(request.offset + Count(request.size), kArenaGrain);
    }
    plan.slots_.push_back(slot);
    plan.height_ = std::max(plan.height_, Bytes{slot.end});
    for (const int64_t i : request.pages) {
      plan.height_ = std::max(plan.height_, Bytes{(i + 1) * plan.page_});
    }
  }
  plan.Scatter(step);
  plan.FindPreceding();
  return plan;
}

// Slots of the same pages have the same addresses.
void ArenaPlan::Scatter(absl::Span<const PlannedRequest> step) {
  std::map<absl::Span<const int64_t>, std::pair<int64_t, int>> known;
  int64_t next = AlignUp(Count(height_), page_);
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i].pages.empty()) continue;
    const auto [same, is_new] =
        known.try_emplace(step[i].pages, next, static_cast<int>(pages_.size()));
    const auto count = static_cast<int>(step[i].pages.size());
    if (is_new) {
      pages_.insert(pages_.end(), step[i].pages.begin(), step[i].pages.end());
      next += count * page_;
    }
    Slot& slot = slots_[i];
    std::tie(slot.offset, slot.first_page) = same->second;
    slot.last_page = slot.first_page + count;
    slot.end = AlignUp(slot.offset + Count(slot.size), kArenaGrain);
  }
  addresses_ = known.empty() ? height_ : Bytes{next};
}

// Visits the memory of the slot.
template <typename Visit>
void ArenaPlan::ForEachPiece(const Slot& slot, Visit visit) const {
  if (!slot.is_scattered()) return visit(slot.offset, slot.end);
  for (const int64_t i : PagesOf(slot)) visit(i * page_, (i + 1) * page_);
}

bool ArenaPlan::Overlap(const Slot& a, const Slot& b) const {
  bool overlap = false;
  ForEachPiece(a, [&](int64_t begin, int64_t end) {
    ForEachPiece(b, [&](int64_t other_begin, int64_t other_end) {
      overlap |= begin < other_end && other_begin < end;
    });
  });
  return overlap;
}

void ArenaPlan::FindPreceding() {
  LastAsked last;
  const int count = static_cast<int>(slots_.size());
  // The first time round says what is there when the next step begins.
  for (int i = 0; i < count; ++i) {
    if (slots_[i].offset == kUnplaced) continue;
    ForEachPiece(slots_[i], [&](int64_t begin, int64_t end) {
      last.Take(i, begin, end, [](int) {});
    });
  }
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots_[i];
    if (slot.offset == kUnplaced) continue;
    slot.first_preceding = static_cast<int>(preceding_.size());
    ForEachPiece(slot, [&](int64_t begin, int64_t end) {
      last.Take(i, begin, end, [&](int other) { preceding_.push_back(other); });
    });
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
