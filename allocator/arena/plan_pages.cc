#include "allocator/arena/plan_pages.h"

#include "absl/memory/memory.h"

namespace ebbtide {
namespace {

int64_t PagesFor(Bytes size, int64_t page) {
  return (Count(size) + page - 1) / page;
}

}  // namespace

std::unique_ptr<PlanPages> PlanPages::Make(ArenaPlan plan, FreeMemory* free,
                                           StreamOrder* order) {
  const auto at =
      free->TakeAddresses(PagesFor(plan.addresses(), free->pages().page()));
  if (!at) return nullptr;
  return absl::WrapUnique(new PlanPages(std::move(plan), *at, free, order));
}

PlanPages::PlanPages(ArenaPlan plan, PageRange at, FreeMemory* free,
                     StreamOrder* order)
    : free_(*free),
      order_(*order),
      memory_{at.first,
              at.first + PagesFor(plan.height(), free->pages().page())},
      aliases_{memory_.last, at.last},
      missing_(memory_.last - memory_.first),
      blocks_(std::move(plan), free->pages().base() + base(), order,
              [this](const ArenaPlan::Slot& slot) { return Back(slot); }) {}

PageRange PlanPages::AddressesOf(const ArenaPlan::Slot& slot) const {
  return free_.pages().RangeOf(base() + slot.offset, base() + slot.end);
}

// Pages of the plan's memory that the slot has.
template <typename Visit>
void PlanPages::ForEachPage(const ArenaPlan::Slot& slot, Visit visit) const {
  if (slot.is_scattered()) {
    for (const int64_t i : blocks_.plan().PagesOf(slot)) {
      visit(memory_.first + i);
    }
    return;
  }
  const PageRange pages = AddressesOf(slot);
  for (int64_t i = pages.first; i < pages.last; ++i) visit(i);
}

bool PlanPages::Back(const ArenaPlan::Slot& slot) {
  if (missing_ == 0 && !slot.is_scattered()) return true;
  backed_ = &slot;
  std::vector<int64_t> pages;
  ForEachPage(slot, [&](int64_t i) { pages.push_back(i); });
  bool is_backed = true;
  for (const PageRange& run : RunsOf(pages)) is_backed = is_backed && Map(run);
  if (is_backed && slot.is_scattered()) {
    is_backed = free_.pages().MapAliases(AddressesOf(slot).first, pages).ok();
  }
  backed_ = nullptr;
  free_.pages().ReleaseSpare();
  return is_backed;
}

bool PlanPages::Map(PageRange wanted) {
  PageMap& pages = free_.pages();
  const int64_t begin = wanted.first * pages.page();
  const int64_t end = wanted.last * pages.page();
  const int64_t missing = pages.Missing(begin, end);
  if (missing == 0) return true;
  const int64_t available = pages.Room() + pages.spare() +
                            std::ssize(free_.Pages()) + std::ssize(Idle());
  if (missing > available) return false;
  if (!free_.Supply(missing, wanted) && !TakeIdle(missing)) return false;
  const bool is_mapped = pages.MapSpare(begin, end).ok();
  missing_ -= missing - pages.Missing(begin, end);
  return is_mapped;
}

bool PlanPages::Free(void* block, absl::Span<const int> others,
                     absl::Span<const StreamMark> ends) {
  const ArenaPlan::Slot* const slot = blocks_.Free(block, others, ends);
  if (slot == nullptr) return false;
  // While all of the plan's pages are mapped they have no ages.
  if (missing_ == 0) return true;
  ForEachPage(*slot, [&](int64_t i) {
    free_.ages().OnFree({i, i + 1}, slot->stream, !others.empty());
  });
  return true;
}

std::vector<FreePage> PlanPages::Idle() const {
  if (mapped() == 0) return {};
  std::vector<char> is_used(memory_.last - memory_.first);
  const auto use = [&](int64_t i) { is_used[i - memory_.first] = 1; };
  for (const ArenaPlan::Slot* slot : blocks_.Live()) ForEachPage(*slot, use);
  if (backed_ != nullptr) ForEachPage(*backed_, use);
  std::vector<FreePage> idle;
  for (int64_t i = memory_.first; i < memory_.last; ++i) {
    if (free_.pages().IsMapped(i) && !is_used[i - memory_.first]) {
      idle.push_back({.index = i});
    }
  }
  return idle;
}

bool PlanPages::TakeIdle(int64_t count) {
  PageMap& pages = free_.pages();
  const std::vector<int64_t> idle =
      free_.ages().Oldest(count - pages.spare(), Idle());
  if (idle.empty()) return false;
  if (!(missing_ > 0 ? free_.ages().WaitFor(idle)
                     : free_.ages().WaitForAll())) {
    return false;
  }
  for (const StreamMark& end : blocks_.OutsideEnds()) {
    if (!free_.WaitFor(end)) return false;
  }
  blocks_.ForgetOutsideEnds();
  for (const PageRange& run : RunsOf(idle)) {
    if (pages.Unmap(run)) missing_ += run.last - run.first;
  }
  return pages.spare() >= count;
}

std::vector<PlanPages::Block> PlanPages::End() {
  UnmapScattered();
  // Stream 0 runs behind copies before its use is noted.
  StreamUses outside;
  for (const StreamMark& end : blocks_.OutsideEnds()) {
    if (order_.IsOver(end) || order_.RunBehind(end, 0).ok()) continue;
    outside.push_back({StreamUse::kOutside, end});
  }
  StreamUses uses = UsesSoFar(&order_);
  uses.insert(uses.end(), outside.begin(), outside.end());
  std::vector<Block> live;
  int64_t next = base();
  for (const ArenaPlan::Slot* slot : blocks_.Live()) {
    live.push_back({base() + slot->offset, base() + slot->end, slot->stream});
    free_.GiveAddresses(next, live.back().begin, uses);
    next = live.back().end;
  }
  free_.GiveAddresses(next, aliases_.last * free_.pages().page(), uses);
  free_.ages().OnFree({memory_.first, aliases_.last}, 0, order_.streams() > 1);
  return live;
}

// Blocks of scattered slots keep their addresses, alone. Pages that still have
// two are not used again.
void PlanPages::UnmapScattered() {
  if (aliases_.first == aliases_.last) return;
  // No work uses an address that is unmapped.
  if (!free_.ages().WaitForAll()) return;
  for (const StreamMark& end : blocks_.OutsideEnds()) {
    if (!free_.WaitFor(end)) return;
  }
  for (const ArenaPlan::Slot* slot : blocks_.Live()) {
    if (!slot->is_scattered()) continue;
    const PageRange own = AddressesOf(*slot);
    for (int64_t i = own.first; i < own.last; ++i) free_.pages().TakePlace(i);
  }
  free_.pages().UnmapAliases(aliases_);
}

}  // namespace ebbtide
