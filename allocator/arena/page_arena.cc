#include "allocator/arena/page_arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// Parts of the addresses, in 16ths.
constexpr int64_t kSmallPart = 1;
constexpr int64_t kLastingPart = 3;
constexpr int64_t kGradientsPart = 3;

}  // namespace

absl::Status PageArena::Reserve(Bytes size) {
  const std::lock_guard lock(mutex_);
  const absl::Status reserved = pages_.Reserve(size);
  if (!reserved.ok()) return reserved;
  const auto part = [&](int64_t sixteenths) {
    return AlignUp(pages_.size() / 16 * sixteenths, pages_.page());
  };
  zones_ = {0, part(kSmallPart), part(kSmallPart + kLastingPart),
            part(kSmallPart + kLastingPart + kGradientsPart)};
  for (int zone = 0; zone < kZones; ++zone) {
    const int64_t end = zone + 1 < kZones ? zones_[zone + 1] : pages_.size();
    free_[zone].Add(zones_[zone], {.end = end});
  }
  return reserved;
}

PageArena::Zone PageArena::ZoneFor(int64_t size, By by) const {
  if (size < small_) return kSmall;
  if (by == By::kForward || !lasting_.contains(size)) return kPassing;
  return by == By::kBackward ? kGradients : kLasting;
}

FreeExtents& PageArena::FreeAt(int64_t offset) {
  const auto zone = std::upper_bound(zones_.begin(), zones_.end(), offset);
  return free_[zone - zones_.begin() - 1];
}

void* PageArena::Allocate(Bytes size, int stream, ArenaVerdict* verdict,
                          By by) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone zone = ZoneFor(need, by);
  if (plan_ == nullptr) return AllocateByDemand(need, stream, zone);
  ArenaVerdict unheard;
  if (verdict == nullptr) verdict = &unheard;
  if (void* const block = plan_->Allocate(size, stream, verdict)) return block;
  if (verdict->what == ArenaVerdict::What::kUnbacked) return nullptr;
  void* const block = AllocateByDemand(need, stream, zone);
  if (block == nullptr) {
    plan_->ExpectAgain(*verdict);
  } else if (verdict->what != ArenaVerdict::What::kUnplaced) {
    ++elsewhere_;
    elsewhere_bytes_ += need;
  }
  return block;
}

void* PageArena::AllocateAnywhere(Bytes size, int stream, By by) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone own = ZoneFor(need, by);
  for (const Zone zone : {own, kPassing, kGradients, kLasting, kSmall}) {
    if (void* const block = AllocateByDemand(need, stream, zone)) return block;
  }
  void* const block = AllocateJoined(need, stream);
  pages_.ReleaseSpare();
  return block;
}

void* PageArena::AllocateByDemand(int64_t size, int stream, Zone zone) {
  FreeExtents& free = free_[zone];
  auto found = free.LowestFit(size, stream);
  if (!found && free.Settle(&order_)) found = free.LowestFit(size, stream);
  if (found) {
    free.TakeFront(*found, size);
    return Book(*found, size, stream);
  }
  const auto window = ChooseWindow(size, stream, zone);
  if (!window) return nullptr;
  const bool is_taken =
      (window->missing == 0 || MapWindow(*window, size, stream)) &&
      TakeFree(window->begin, window->begin + size, stream);
  pages_.ReleaseSpare();
  return is_taken ? Book(window->begin, size, stream) : nullptr;
}

void* PageArena::Book(int64_t begin, int64_t size, int stream) {
  live_[begin] = {.end = begin + size, .stream = stream};
  alive_ += size;
  return pages_.base() + begin;
}

bool PageArena::FindsRoom(Bytes size, int stream) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone zone = ZoneFor(need, By::kForward);
  if (need / pages_.page() + 2 <= system_.Room()) return true;
  if (free_[zone].LowestFit(need, stream)) return true;
  free_[zone].Settle(&order_);
  return free_[zone].LowestFit(need, stream) ||
         ChooseWindow(need, stream, zone);
}

// Pages are created before work is made to wait for other streams, and moved
// only where that is not enough, either.
std::optional<PageWindow> PageArena::ChooseWindow(int64_t size, int stream,
                                                  Zone zone) const {
  const int64_t room = system_.Room();
  const auto idle = static_cast<int64_t>(IdlePlanPages().size());
  const PageCensus census(free_, pages_, room + idle);
  const auto own =
      FindWindow(free_[zone], census, size, stream, /*of_any_stream=*/false);
  if (own && own->missing <= room) return own;
  const auto any =
      FindWindow(free_[zone], census, size, stream, /*of_any_stream=*/true);
  return any ? any : own;
}

// Work of the stream runs behind that of others which uses them.
bool PageArena::TakeFree(int64_t begin, int64_t end, int stream) {
  if (begin == end) return true;
  StreamUses uses = FreeAt(begin).Take(begin, end);
  for (const StreamUse& use : uses) {
    if (use.stream == stream) continue;
    StreamMark mark = use.end;
    if (mark == nullptr) {
      const auto now = order_.Mark(use.stream);
      if (now.ok()) mark = *now;
    }
    if (mark != nullptr && order_.RunBehind(mark, stream).ok()) continue;
    FreeAt(begin).Add(begin, {end, true, std::move(uses)});
    return false;
  }
  return true;
}

void* PageArena::AllocateJoined(int64_t size, int stream) {
  const int64_t available = system_.Room() +
                            std::ssize(FreePages(free_, pages_, {})) +
                            std::ssize(IdlePlanPages());
  const auto joint = FindJoint(free_, pages_, size, available);
  if (!joint) return nullptr;
  const auto at = TakeAddresses(joint->pages + 2);
  if (!at) return nullptr;
  const int64_t head = (at->first + 1) * pages_.page() - joint->head_size;
  const bool is_mapped = MapJoint(*joint, *at, stream);
  // Addresses that the block does not need go back.
  const int64_t begin = at->first * pages_.page();
  const int64_t end = at->last * pages_.page();
  const StreamUses uses = {{.stream = stream}};
  if (!is_mapped) {
    if (!pages_.UnmapAliases(*at)) pages_.UnmapAliases(*at);
    AddGap(begin, end, uses);
    for (const int64_t alias : {at->first, at->last - 1}) {
      if (pages_.IsMapped(alias)) left_aliases_.push_back(alias);
    }
    return nullptr;
  }
  if (joint->head_size == 0) AddGap(begin, head, uses);
  if (joint->tail_size == 0) AddGap(head + size, end, uses);
  joined_[head] = {.addresses = *at, .joint = *joint};
  return Book(head, size, stream);
}

bool PageArena::MapJoint(const PageJoint& joint, PageRange at, int stream) {
  const int64_t page = pages_.page();
  const auto alias = [&](int64_t number, int64_t part, int64_t size) {
    return size == 0 || pages_.MapAliases(number, {part / page}).ok();
  };
  if (!Supply(joint.pages, {}) ||
      !alias(at.first, joint.head, joint.head_size) ||
      !alias(at.last - 1, joint.tail, joint.tail_size) ||
      !pages_.MapSpare((at.first + 1) * page, (at.last - 1) * page).ok() ||
      !TakeFree(joint.head, joint.head + joint.head_size, stream)) {
    return false;
  }
  if (TakeFree(joint.tail, joint.tail + joint.tail_size, stream)) return true;
  if (joint.head_size > 0) {
    FreeAt(joint.head)
        .Add(joint.head,
             {joint.head + joint.head_size, true, {{.stream = stream}}});
  }
  return false;
}

// Addresses of so many pages at which nothing is.
std::optional<PageRange> PageArena::TakeAddresses(int64_t count) {
  std::erase_if(left_aliases_, [this](int64_t page) {
    if (pages_.IsMapped(page)) return false;
    const int64_t begin = page * pages_.page();
    free_[kPassing].Add(begin, {.end = begin + pages_.page()});
    return true;
  });
  for (const auto& [begin, extent] : free_[kPassing].all()) {
    const int64_t first = AlignUp(begin, pages_.page());
    const int64_t end = first + count * pages_.page();
    if (extent.is_mapped || extent.end < end) continue;
    free_[kPassing].Take(first, end);
    return PagesOf(first, end);
  }
  return std::nullopt;
}

// Pages that have become mapped are free ones of the stream.
bool PageArena::MapWindow(const PageWindow& window, int64_t size, int stream) {
  const PageRange wanted = PagesOf(window.begin, window.begin + size);
  if (!Supply(window.missing, wanted)) return false;
  std::vector<int64_t> missing;
  for (int64_t i = wanted.first; i < wanted.last; ++i) {
    if (!pages_.IsMapped(i)) missing.push_back(i);
  }
  const bool is_mapped =
      pages_.MapSpare(window.begin, window.begin + size).ok();
  for (const int64_t i : missing) {
    if (!pages_.IsMapped(i)) continue;
    const int64_t begin = i * pages_.page();
    FreeAt(begin).Take(begin, begin + pages_.page());
    FreeAt(begin).Add(begin,
                      {begin + pages_.page(), true, {{.stream = stream}}});
  }
  return is_mapped;
}

PageRange PageArena::PagesOf(int64_t begin, int64_t end) const {
  return {.first = begin / pages_.page(),
          .last = (end + pages_.page() - 1) / pages_.page()};
}

PageRange PageArena::PagesOf(const ArenaPlan::Slot& slot) const {
  const int64_t base = plan_pages_.first * pages_.page();
  return PagesOf(base + slot.offset, base + slot.end);
}

// Pages of the plan's memory that the slot has.
template <typename Visit>
void PageArena::ForEachPlanPage(const ArenaPlan::Slot& slot,
                                Visit visit) const {
  if (slot.is_scattered()) {
    for (const int64_t i : plan_->plan().PagesOf(slot)) {
      visit(plan_pages_.first + i);
    }
    return;
  }
  const PageRange pages = PagesOf(slot);
  for (int64_t i = pages.first; i < pages.last; ++i) visit(i);
}

std::vector<FreePage> PageArena::IdlePlanPages() const {
  const int64_t count = plan_pages_.last - plan_pages_.first;
  if (plan_ == nullptr || plan_missing_ == count) return {};
  std::vector<char> is_used(count);
  const auto use = [&](int64_t i) { is_used[i - plan_pages_.first] = 1; };
  for (const ArenaPlan::Slot* slot : plan_->Live()) ForEachPlanPage(*slot, use);
  if (backed_ != nullptr) ForEachPlanPage(*backed_, use);
  std::vector<FreePage> idle;
  for (int64_t i = plan_pages_.first; i < plan_pages_.last; ++i) {
    if (pages_.IsMapped(i) && !is_used[i - plan_pages_.first]) {
      idle.push_back({.index = i});
    }
  }
  return idle;
}

// Makes `count` pages spare, which are none of `but`.
bool PageArena::Supply(int64_t count, PageRange but) {
  if (pages_.Create(count)) return true;
  TakeFreePages(count - pages_.spare(), but);
  if (pages_.spare() < count) TakePlanPages(count - pages_.spare());
  return pages_.spare() >= count;
}

void PageArena::TakeFreePages(int64_t count, PageRange but) {
  const std::vector<int64_t> taken =
      ages_.Oldest(count, FreePages(free_, pages_, but));
  if (taken.empty() || !ages_.WaitFor(taken)) return;
  for (const PageRange& run : RunsOf(taken)) TakeFreeRun(run);
}

void PageArena::TakeFreeRun(PageRange run) {
  std::vector<StreamUses> uses;
  bool is_spare = true;
  for (int64_t i = run.first; i < run.last; ++i) {
    const int64_t begin = i * pages_.page();
    uses.push_back(FreeAt(begin).Take(begin, begin + pages_.page()));
    for (const StreamUse& use : uses.back()) {
      is_spare &= use.stream != StreamUse::kOutside || WaitForOutside(use.end);
    }
  }
  is_spare = is_spare && pages_.Unmap(run);
  if (is_spare) moves_ += run.last - run.first;
  for (int64_t i = run.first; i < run.last; ++i) {
    const int64_t begin = i * pages_.page();
    StreamUses& before = uses[i - run.first];
    FreeAt(begin).Add(begin, {begin + pages_.page(), !is_spare,
                              is_spare ? StreamUses() : std::move(before)});
  }
}

void PageArena::TakePlanPages(int64_t count) {
  const std::vector<int64_t> idle = ages_.Oldest(count, IdlePlanPages());
  if (idle.empty()) return;
  // While all of the plan's pages are mapped they have no ages.
  if (!(plan_missing_ > 0 ? ages_.WaitFor(idle) : ages_.WaitForAll())) return;
  for (const StreamMark& end : plan_->OutsideEnds()) {
    if (!WaitForOutside(end)) return;
  }
  plan_->ForgetOutsideEnds();
  for (const PageRange& run : RunsOf(idle)) {
    if (!pages_.Unmap(run)) continue;
    moves_ += run.last - run.first;
    plan_missing_ += run.last - run.first;
  }
}

bool PageArena::WaitForOutside(const StreamMark& end) {
  return order_.IsOver(end) || order_.Wait(end).ok();
}

bool PageArena::Back(const ArenaPlan::Slot& slot) {
  if (plan_missing_ == 0 && !slot.is_scattered()) return true;
  backed_ = &slot;
  bool is_backed = true;
  if (!slot.is_scattered()) {
    is_backed = MapPlanPages(PagesOf(slot));
  } else {
    std::vector<int64_t> pages;
    ForEachPlanPage(slot, [&](int64_t i) { pages.push_back(i); });
    for (const PageRange& run : RunsOf(pages)) {
      is_backed = is_backed && MapPlanPages(run);
    }
    is_backed = is_backed && pages_.MapAliases(PagesOf(slot).first, pages).ok();
  }
  backed_ = nullptr;
  pages_.ReleaseSpare();
  return is_backed;
}

bool PageArena::MapPlanPages(PageRange wanted) {
  if (plan_missing_ == 0) return true;
  const int64_t begin = wanted.first * pages_.page();
  const int64_t end = wanted.last * pages_.page();
  const int64_t missing = pages_.Missing(begin, end);
  if (missing == 0) return true;
  const int64_t available =
      system_.Room() + pages_.spare() +
      static_cast<int64_t>(FreePages(free_, pages_, {}).size() +
                           IdlePlanPages().size());
  if (missing > available || !Supply(missing, wanted)) return false;
  const bool is_mapped = pages_.MapSpare(begin, end).ok();
  plan_missing_ -= missing - pages_.Missing(begin, end);
  return is_mapped;
}

bool PageArena::Free(void* block, absl::Span<const int> others,
                     absl::Span<const StreamMark> ends) {
  const std::lock_guard lock(mutex_);
  if (plan_ != nullptr) {
    if (const ArenaPlan::Slot* const slot = plan_->Free(block, others, ends)) {
      if (plan_missing_ > 0) {
        ForEachPlanPage(*slot, [&](int64_t i) {
          ages_.OnFree({i, i + 1}, slot->stream, !others.empty());
        });
      }
      return true;
    }
  }
  const int64_t begin = static_cast<char*>(block) - pages_.base();
  const auto found = live_.find(begin);
  if (found == live_.end()) return false;
  const Live live = found->second;
  live_.erase(found);
  alive_ -= live.end - begin;
  StreamUses uses = {{.stream = live.stream}};
  for (const int other : others) {
    const auto mark = order_.Mark(other);
    uses.push_back({other, mark.ok() ? *mark : nullptr});
  }
  for (const StreamMark& end : ends) {
    uses.push_back({StreamUse::kOutside, end});
  }
  const auto free_part = [&](int64_t from, int64_t to) {
    if (from == to) return;
    FreeAt(from).Add(from, {to, true, uses});
    ages_.OnFree(PagesOf(from, to), live.stream, !others.empty());
  };
  if (!joined_.contains(begin)) {
    free_part(begin, live.end);
    return true;
  }
  const auto [at, joint] = joined_.extract(begin).mapped();
  free_part(joint.head, joint.head + joint.head_size);
  free_part(begin + joint.head_size, live.end - joint.tail_size);
  free_part(joint.tail, joint.tail + joint.tail_size);
  // The aliases go when their pages do: the work that uses them may go on.
  if (joint.head_size > 0) left_aliases_.push_back(at.first);
  if (joint.tail_size > 0) left_aliases_.push_back(at.last - 1);
  return true;
}

Bytes PageArena::GiveBack(Bytes wanted, bool of_plan) {
  const std::lock_guard lock(mutex_);
  const int64_t count = (Count(wanted) - 1) / pages_.page() + 1;
  TakeFreePages(count, {});
  if (of_plan && pages_.spare() < count) {
    TakePlanPages(count - pages_.spare());
  }
  const Bytes given{pages_.spare() * pages_.page()};
  pages_.ReleaseSpare();
  return given;
}

bool PageArena::BeginPlan(ArenaPlan plan) {
  const std::lock_guard lock(mutex_);
  const int64_t memory = AlignUp(Count(plan.height()), pages_.page());
  const int64_t size = AlignUp(Count(plan.addresses()), pages_.page());
  const auto at = TakeAddresses(size / pages_.page());
  if (!at) return false;
  const int64_t first = at->first * pages_.page();
  plan_pages_ = PagesOf(first, first + memory);
  plan_aliases_ = {plan_pages_.last, at->last};
  plan_missing_ = memory / pages_.page();
  plan_ =
      std::make_unique<PlannedArena>(std::move(plan), pages_.base() + first,
                                     &order_, static_cast<PlanBacking*>(this));
  return true;
}

void PageArena::BeginStep() {
  const std::lock_guard lock(mutex_);
  if (plan_ != nullptr) return plan_->BeginStep();
  lasting_.clear();
  for (const auto& [begin, live] : live_) lasting_.insert(live.end - begin);
}

void PageArena::EndPlan() {
  const std::lock_guard lock(mutex_);
  if (plan_ == nullptr) return;
  UnmapScattered();
  const int64_t base = plan_pages_.first * pages_.page();
  int64_t next = base;
  StreamUses outside;
  for (const StreamMark& end : plan_->OutsideEnds()) {
    if (order_.IsOver(end) || order_.RunBehind(end, 0).ok()) continue;
    outside.push_back({StreamUse::kOutside, end});
  }
  StreamUses uses = UsesSoFar(&order_);
  uses.insert(uses.end(), outside.begin(), outside.end());
  for (const ArenaPlan::Slot* slot : plan_->Live()) {
    AddGap(next, base + slot->offset, uses);
    next = base + slot->end;
    Book(base + slot->offset, slot->end - slot->offset, slot->stream);
  }
  AddGap(next, plan_aliases_.last * pages_.page(), uses);
  ages_.OnFree({plan_pages_.first, plan_aliases_.last}, 0,
               order_.streams() > 1);
  ended_ += plan_->counts();
  plan_.reset();
}

// Blocks of scattered slots keep their addresses, alone. What fails is tried
// once more; pages that then still have two addresses are not used again.
void PageArena::UnmapScattered() {
  if (plan_aliases_.first == plan_aliases_.last) return;
  // No work uses an address that is unmapped.
  if (!ages_.WaitForAll() && !ages_.WaitForAll()) return;
  for (const StreamMark& end : plan_->OutsideEnds()) {
    if (!WaitForOutside(end) && !WaitForOutside(end)) return;
  }
  for (const ArenaPlan::Slot* slot : plan_->Live()) {
    if (!slot->is_scattered()) continue;
    const PageRange own = PagesOf(*slot);
    for (int64_t i = own.first; i < own.last; ++i) {
      if (!pages_.TakePlace(i)) pages_.TakePlace(i);
    }
  }
  if (!pages_.UnmapAliases(plan_aliases_)) pages_.UnmapAliases(plan_aliases_);
}

std::vector<int64_t> PageArena::PlanLives() const {
  const std::lock_guard lock(mutex_);
  return plan_ == nullptr ? std::vector<int64_t>() : plan_->lives();
}

// Addresses of a plan that ends, but those of pages that have others.
void PageArena::AddGap(int64_t begin, int64_t end, const StreamUses& uses) {
  while (begin < end) {
    const int64_t page = begin / pages_.page();
    const int64_t next = std::min(end, (page + 1) * pages_.page());
    const bool is_mapped = pages_.IsMapped(page);
    if (!is_mapped || pages_.IsOwn(page)) {
      free_[kPassing].Add(begin,
                          {next, is_mapped, is_mapped ? uses : StreamUses()});
    }
    begin = next;
  }
}

Bytes PageArena::mapped() const {
  const std::lock_guard lock(mutex_);
  return Bytes{pages_.mapped() * pages_.page()};
}

PageArena::Facts PageArena::facts() const {
  const std::lock_guard lock(mutex_);
  Facts facts = {
      .mapped = Bytes{pages_.mapped() * pages_.page()},
      .free = Bytes{static_cast<int64_t>(FreePages(free_, pages_, {}).size()) *
                    pages_.page()},
      .alive = Bytes{alive_},
      .moves = moves_,
      .counts = ended_,
      .elsewhere = elsewhere_,
      .elsewhere_bytes = elsewhere_bytes_};
  if (plan_ == nullptr) return facts;
  facts.planned = Bytes{(plan_pages_.last - plan_pages_.first - plan_missing_) *
                        pages_.page()};
  facts.planned_alive = plan_->live();
  facts.alive += plan_->live();
  facts.counts += plan_->counts();
  return facts;
}

std::vector<PageArena::Range> PageArena::Mapped() const {
  const std::lock_guard lock(mutex_);
  return MappedRanges();
}

std::vector<PageArena::Range> PageArena::MappedRanges() const {
  std::vector<int64_t> mapped;
  for (int64_t i = 0; i < pages_.top(); ++i) {
    if (pages_.IsMapped(i)) mapped.push_back(i);
  }
  std::vector<Range> ranges;
  for (const PageRange& run : RunsOf(std::move(mapped))) {
    ranges.push_back({pages_.base() + run.first * pages_.page(),
                      pages_.base() + run.last * pages_.page()});
  }
  return ranges;
}

bool PageArena::Check() const {
  const std::lock_guard lock(mutex_);
  for (const FreeExtents& free : free_) {
    if (!free.Check()) return false;
  }
  if (pages_.spare() > 0) return false;
  std::vector<std::pair<int64_t, int64_t>> parts;
  const auto is_backed = [&](int64_t begin, int64_t end) {
    return pages_.Missing(begin, end) == 0;
  };
  int64_t alive = 0;
  for (const auto& [begin, live] : live_) {
    parts.emplace_back(begin, live.end);
    alive += live.end - begin;
    if (!is_backed(begin, live.end)) return false;
  }
  const int64_t page = pages_.page();
  for (const auto& [begin, joined] : joined_) {
    const PageJoint& joint = joined.joint;
    for (const auto& [from, size] : {std::pair(joint.head, joint.head_size),
                                     std::pair(joint.tail, joint.tail_size)}) {
      if (size > 0) parts.emplace_back(from, from + size);
    }
    const int64_t end = live_.at(begin).end;
    if (joint.head_size > 0)
      parts.emplace_back(joined.addresses.first * page, begin);
    if (joint.tail_size > 0)
      parts.emplace_back(end, joined.addresses.last * page);
  }
  for (const int64_t alias : left_aliases_) {
    parts.emplace_back(alias * page, (alias + 1) * page);
  }
  for (const FreeExtents& free : free_) {
    for (const auto& [begin, extent] : free.all()) {
      parts.emplace_back(begin, extent.end);
      const int64_t missing = pages_.Missing(begin, extent.end);
      const PageRange pages = PagesOf(begin, extent.end);
      const int64_t expected = extent.is_mapped ? 0 : pages.last - pages.first;
      if (missing != expected) return false;
    }
  }
  if (plan_ != nullptr) {
    const int64_t base = plan_pages_.first * pages_.page();
    const int64_t end = plan_pages_.last * pages_.page();
    const int64_t all = plan_aliases_.last * pages_.page();
    if (all > base) parts.emplace_back(base, all);
    if (plan_missing_ != pages_.Missing(base, end)) return false;
    for (const ArenaPlan::Slot* slot : plan_->Live()) {
      if (!is_backed(base + slot->offset, base + slot->end)) return false;
    }
  }
  std::sort(parts.begin(), parts.end());
  int64_t end = 0;
  for (const auto& [begin, next] : parts) {
    if (begin != end) return false;
    end = next;
  }
  return end == pages_.size() && alive == alive_;
}

}  // namespace ebbtide
