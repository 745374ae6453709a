#include "allocator/arena/page_arena.h"

#include <iterator>
#include <utility>

#include "planner/place_problem.h"

namespace ebbtide {
namespace {

std::vector<PageArena::Range> RangesOf(const PageMap& pages,
                                       const std::vector<PageRange>& runs) {
  std::vector<PageArena::Range> ranges;
  for (const PageRange& run : runs) {
    ranges.push_back({pages.base() + run.first * pages.page(),
                      pages.base() + run.last * pages.page()});
  }
  return ranges;
}

}  // namespace

absl::Status PageArena::Reserve(Bytes size) {
  const std::lock_guard lock(mutex_);
  return free_.Reserve(size);
}

PageArena::Zone PageArena::ZoneFor(int64_t size, By by) const {
  if (size < small_) return Zone::kSmall;
  if (by == By::kForward || !lasting_.contains(size)) return Zone::kPassing;
  if (by == By::kOutside) return Zone::kLasting;
  const auto turn = turns_.find(size);
  return gradients_.empty() ||
                 gradients_.contains(
                     {size, turn == turns_.end() ? 0 : turn->second})
             ? Zone::kGradients
             : Zone::kPassing;
}

void PageArena::NoteTurn(const void* block, int64_t size, By by) {
  if (by == By::kOutside) EndPass();
  if (by != By::kBackward || block == nullptr || size < small_) return;
  const int64_t turn = turns_[size]++;
  if (plan_ != nullptr) return;
  const auto live =
      live_.find(static_cast<const char*>(block) - free_.pages().base());
  if (live != live_.end()) live->second.turn = turn;
}

// A plan's blocks have no turns, and leave what is known as it is.
void PageArena::EndPass() {
  if (turns_.empty()) return;
  turns_.clear();
  if (plan_ != nullptr) return;
  gradients_.clear();
  for (auto& [begin, live] : live_) {
    if (live.turn >= 0) gradients_.insert({live.end - begin, live.turn});
    live.turn = -1;
  }
}

void* PageArena::Allocate(Bytes size, int stream, ArenaVerdict* verdict,
                          By by) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone zone = ZoneFor(need, by);
  ArenaVerdict unheard;
  void* const block =
      plan_ == nullptr
          ? AllocateByDemand(need, stream, zone)
          : AllocateByPlan(size, stream, zone,
                           verdict == nullptr ? &unheard : verdict);
  NoteTurn(block, need, by);
  return block;
}

void* PageArena::AllocateByPlan(Bytes size, int stream, Zone zone,
                                ArenaVerdict* verdict) {
  void* block = plan_->blocks().Allocate(size, stream, verdict);
  if (block != nullptr) return block;
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  block = AllocateByDemand(need, stream, zone);
  // An eviction instead would be one that no plan has.
  if (block == nullptr && verdict->what == ArenaVerdict::What::kOccupied) {
    block = AllocateAmongOthers(need, stream, zone);
  }
  if (block == nullptr) {
    plan_->blocks().ExpectAgain(*verdict);
  } else if (verdict->what != ArenaVerdict::What::kUnplaced) {
    ++elsewhere_;
    elsewhere_bytes_ += need;
  }
  return block;
}

void* PageArena::AllocateAnywhere(Bytes size, int stream, By by) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone zone = ZoneFor(need, by);
  void* block = AllocateByDemand(need, stream, zone);
  if (block == nullptr) block = AllocateAmongOthers(need, stream, zone);
  NoteTurn(block, need, by);
  return block;
}

void* PageArena::AllocateAmongOthers(int64_t size, int stream, Zone own) {
  for (const Zone zone :
       {Zone::kPassing, Zone::kGradients, Zone::kLasting, Zone::kSmall}) {
    if (zone == own) continue;
    if (void* const block = AllocateByDemand(size, stream, zone)) return block;
  }
  void* const block = AllocateJoined(size, stream);
  free_.pages().ReleaseSpare();
  return block;
}

void* PageArena::AllocateByDemand(int64_t size, int stream, Zone zone) {
  FreeExtents& free = free_.In(zone);
  auto found = free.LowestFit(size, stream);
  if (!found && free.Settle(&order_)) found = free.LowestFit(size, stream);
  if (found) {
    free.TakeFront(*found, size);
    return Book(*found, *found + size, stream);
  }
  const auto window = ChooseWindow(size, stream, zone);
  if (!window) return nullptr;
  PageMap& pages = free_.pages();
  const int64_t end = window->begin + size;
  const bool is_taken =
      (window->missing == 0 ||
       (Supply(window->missing, pages.RangeOf(window->begin, end)) &&
        free_.Map(window->begin, end, stream))) &&
      free_.Take(window->begin, end, stream);
  pages.ReleaseSpare();
  return is_taken ? Book(window->begin, end, stream) : nullptr;
}

void* PageArena::Book(int64_t begin, int64_t end, int stream) {
  live_[begin] = {.end = end, .stream = stream};
  alive_ += end - begin;
  return free_.pages().base() + begin;
}

bool PageArena::FindsRoom(Bytes size, int stream) {
  const std::lock_guard lock(mutex_);
  const int64_t need = AlignUp(Count(size), kArenaGrain);
  const Zone zone = ZoneFor(need, By::kForward);
  FreeExtents& free = free_.In(zone);
  if (need / free_.pages().page() + 2 <= free_.pages().Room()) return true;
  if (free.LowestFit(need, stream)) return true;
  free.Settle(&order_);
  return free.LowestFit(need, stream) || ChooseWindow(need, stream, zone);
}

std::optional<PageWindow> PageArena::ChooseWindow(int64_t size, int stream,
                                                  Zone zone) const {
  return FindWindow(free_.zones(), zone, free_.pages(), size, stream,
                    IdleOfPlan());
}

int64_t PageArena::IdleOfPlan() const {
  return plan_ == nullptr ? 0 : std::ssize(plan_->Idle());
}

// Makes `count` pages spare, which are none of `but`.
bool PageArena::Supply(int64_t count, PageRange but) {
  return free_.Supply(count, but) ||
         (plan_ != nullptr && plan_->TakeIdle(count));
}

void* PageArena::AllocateJoined(int64_t size, int stream) {
  const PageMap& pages = free_.pages();
  const int64_t available =
      pages.Room() + IdleOfPlan() + std::ssize(free_.Pages());
  const auto joint = FindJoint(free_.zones(), pages, size, available);
  if (!joint) return nullptr;
  const auto at = free_.TakeAddresses(joint->pages + 2);
  if (!at) return nullptr;
  const int64_t head = (at->first + 1) * pages.page() - joint->head_size;
  const bool is_mapped = MapJoint(*joint, *at, stream);
  // Addresses that the block does not need go back.
  const int64_t begin = at->first * pages.page();
  const int64_t end = at->last * pages.page();
  const StreamUses uses = {{.stream = stream}};
  if (!is_mapped) {
    free_.pages().UnmapAliases(*at);
    free_.GiveAddresses(begin, end, uses);
    return nullptr;
  }
  if (joint->head_size == 0) free_.GiveAddresses(begin, head, uses);
  if (joint->tail_size == 0) free_.GiveAddresses(head + size, end, uses);
  joined_[head] = {.addresses = *at, .joint = *joint};
  return Book(head, head + size, stream);
}

bool PageArena::MapJoint(const PageJoint& joint, PageRange at, int stream) {
  PageMap& pages = free_.pages();
  const int64_t page = pages.page();
  const auto alias = [&](int64_t number, int64_t part, int64_t size) {
    return size == 0 || pages.MapAliases(number, {part / page}).ok();
  };
  const int64_t head_end = joint.head + joint.head_size;
  if (!Supply(joint.pages, {}) ||
      !alias(at.first, joint.head, joint.head_size) ||
      !alias(at.last - 1, joint.tail, joint.tail_size) ||
      !pages.MapSpare((at.first + 1) * page, (at.last - 1) * page).ok() ||
      !free_.Take(joint.head, head_end, stream)) {
    return false;
  }
  if (free_.Take(joint.tail, joint.tail + joint.tail_size, stream)) return true;
  free_.Add(joint.head, head_end, {{.stream = stream}});
  return false;
}

bool PageArena::Free(void* block, absl::Span<const int> others,
                     absl::Span<const StreamMark> ends) {
  const std::lock_guard lock(mutex_);
  if (plan_ != nullptr && plan_->Free(block, others, ends)) return true;
  const PageMap& pages = free_.pages();
  const int64_t begin = static_cast<char*>(block) - pages.base();
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
    free_.Add(from, to, uses);
    free_.ages().OnFree(pages.RangeOf(from, to), live.stream, !others.empty());
  };
  if (!joined_.contains(begin)) {
    free_part(begin, live.end);
    return true;
  }
  const auto [at, joint] = joined_.extract(begin).mapped();
  const int64_t middle = begin + joint.head_size;
  const int64_t tail = live.end - joint.tail_size;
  free_part(joint.head, joint.head + joint.head_size);
  free_part(middle, tail);
  free_part(joint.tail, joint.tail + joint.tail_size);
  // The aliases go when their pages do: the work that uses them may go on.
  if (joint.head_size > 0) {
    free_.GiveAddresses(at.first * pages.page(), middle, uses);
  }
  if (joint.tail_size > 0) {
    free_.GiveAddresses(tail, at.last * pages.page(), uses);
  }
  return true;
}

Bytes PageArena::GiveBack(Bytes wanted, bool of_plan) {
  const std::lock_guard lock(mutex_);
  PageMap& pages = free_.pages();
  const int64_t count = (Count(wanted) - 1) / pages.page() + 1;
  if (!free_.TakePages(count, {}) && of_plan && plan_ != nullptr) {
    plan_->TakeIdle(count);
  }
  const Bytes given{pages.spare() * pages.page()};
  pages.ReleaseSpare();
  return given;
}

bool PageArena::BeginPlan(ArenaPlan plan) {
  const std::lock_guard lock(mutex_);
  plan_ = PlanPages::Make(std::move(plan), &free_, &order_);
  return plan_ != nullptr;
}

void PageArena::BeginStep() {
  const std::lock_guard lock(mutex_);
  EndPass();
  if (plan_ != nullptr) return plan_->blocks().BeginStep();
  lasting_.clear();
  for (const auto& [begin, live] : live_) lasting_.insert(live.end - begin);
}

void PageArena::EndPlan() {
  const std::lock_guard lock(mutex_);
  if (plan_ == nullptr) return;
  for (const auto& [begin, end, stream] : plan_->End()) {
    Book(begin, end, stream);
  }
  ended_ += plan_->blocks().counts();
  plan_.reset();
}

std::vector<int64_t> PageArena::PlanLives() const {
  const std::lock_guard lock(mutex_);
  return plan_ == nullptr ? std::vector<int64_t>() : plan_->blocks().lives();
}

Bytes PageArena::mapped() const {
  const std::lock_guard lock(mutex_);
  return Bytes{free_.pages().mapped() * free_.pages().page()};
}

PageArena::Facts PageArena::facts() const {
  const std::lock_guard lock(mutex_);
  const PageMap& pages = free_.pages();
  Facts facts = {.mapped = Bytes{pages.mapped() * pages.page()},
                 .room = Bytes{pages.Room() * pages.page()},
                 .free = Bytes{std::ssize(free_.Pages()) * pages.page()},
                 .alive = Bytes{alive_},
                 .moves = pages.moves(),
                 .counts = ended_,
                 .elsewhere = elsewhere_,
                 .elsewhere_bytes = elsewhere_bytes_};
  if (plan_ == nullptr) return facts;
  facts.planned = Bytes{plan_->mapped() * pages.page()};
  facts.planned_alive = plan_->blocks().live();
  facts.alive += facts.planned_alive;
  facts.counts += plan_->blocks().counts();
  return facts;
}

void PageArena::WithMapped(
    absl::FunctionRef<void(std::vector<Range>)> visit) const {
  const std::lock_guard lock(mutex_);
  const PageMap& pages = free_.pages();
  visit(RangesOf(pages, pages.Runs({0, pages.top()}, /*is_mapped=*/true)));
}

std::vector<PageArena::Range> PageArena::MappedOnce(
    absl::Span<const Range> live) const {
  const std::lock_guard lock(mutex_);
  const PageMap& pages = free_.pages();
  std::vector<bool> is_live(pages.top());
  for (const Range& block : live) {
    const PageRange touched =
        pages.RangeOf(block.begin - pages.base(), block.end - pages.base());
    for (int64_t i = touched.first; i < touched.last && i < pages.top(); ++i) {
      is_live[i] = pages.IsMapped(i);
    }
  }
  std::vector<bool> is_at_alias(pages.top());
  for (int64_t i = 0; i < pages.top(); ++i) {
    const int64_t page = pages.PageAt(i);
    if (is_live[i] && page != i) is_at_alias[page] = true;
  }
  std::vector<int64_t> listed;
  for (int64_t i = 0; i < pages.top(); ++i) {
    const bool is_own = pages.IsMapped(i) && pages.PageAt(i) == i;
    if (is_live[i] || (is_own && !is_at_alias[i])) listed.push_back(i);
  }
  return RangesOf(pages, RunsOf(std::move(listed)));
}

}  // namespace ebbtide
