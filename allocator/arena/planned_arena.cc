#include "allocator/arena/planned_arena.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

// Behind the next request of the plan, those that one is taken for.
constexpr int kLookAhead = 8;
// More late blocks than are looked through for each request.
constexpr size_t kManyLate = 16;

}  // namespace

ArenaCounts& ArenaCounts::operator+=(const ArenaCounts& other) {
  planned += other.planned;
  planned_bytes += other.planned_bytes;
  unexpected += other.unexpected;
  occupied += other.occupied;
  skipped += other.skipped;
  return *this;
}

PlannedArena::PlannedArena(ArenaPlan plan, char* base, StreamOrder* order,
                           PlanBacking* backing)
    : plan_(std::move(plan)),
      base_(base),
      order_(order),
      backing_(backing),
      turns_(plan_.slots().size(), Turn::kNever),
      is_live_(plan_.slots().size()),
      is_shared_(plan_.slots().size()),
      served_at_(plan_.slots().size()),
      lives_(plan_.slots().size()),
      is_late_(plan_.slots().size()),
      ends_(plan_.slots().size()),
      has_outside_(plan_.slots().size()) {
  for (const ArenaPlan::Slot& slot : plan_.slots()) {
    if (slot.offset != kUnplaced) live_at_[base_ + slot.offset] = -1;
  }
  late_.reserve(plan_.slots().size());
}

void PlannedArena::BeginStep() {
  SkipTo(static_cast<int>(plan_.slots().size()));
  cursor_ = 0;
  ++steps_;
}

void PlannedArena::SkipTo(int slot) {
  for (; cursor_ < slot; ++cursor_) {
    ComeUp(cursor_);
    turns_[cursor_] = Turn::kNotServed;
    ++counts_.skipped;
  }
}

// Where the next step's first requests come without a BeginStep they find
// nothing here.
int PlannedArena::Match(Bytes size, int stream) const {
  const absl::Span<const ArenaPlan::Slot> slots = plan_.slots();
  const auto matches = [&](int i) {
    return slots[i].size == size && slots[i].stream == stream;
  };
  const auto count = static_cast<int>(slots.size());
  if (cursor_ < count && matches(cursor_)) return cursor_;  // as nearly always
  const int end = std::min(cursor_ + 1 + kLookAhead, count);
  for (int i = cursor_ + 1; i < end; ++i) {
    if (matches(i)) return i;
  }
  return -1;
}

// It is the slot's turn: marks preceding slots that are live as late. True if
// there are none.
bool PlannedArena::ComeUp(int index) {
  bool is_free = true;
  for (const int before : plan_.PrecedingOf(plan_.slots()[index])) {
    if (!is_live_[before]) continue;
    MarkLate(before);
    is_free = false;
  }
  return is_free;
}

void PlannedArena::MarkLate(int slot) {
  if (is_late_[slot]) return;
  is_late_[slot] = 1;
  late_.push_back(slot);
}

bool PlannedArena::MeetsLate(const ArenaPlan::Slot& slot) const {
  if (late_.size() > kManyLate) return true;
  return std::any_of(late_.begin(), late_.end(), [&](int index) {
    return plan_.Overlap(plan_.slots()[index], slot);
  });
}

bool PlannedArena::RunsBehindPreceding(const ArenaPlan::Slot& slot) {
  bool knows_all = true;
  for (const int before : plan_.PrecedingOf(slot)) {
    knows_all &= turns_[before] != Turn::kNotServed;
  }
  // The streams that used the addresses of one that was not served are not
  // looked for.
  if (!knows_all) return RunsBehindAll(slot.stream);
  for (const int before : plan_.PrecedingOf(slot)) {
    if (turns_[before] == Turn::kNever) continue;
    const ArenaPlan::Slot& last = plan_.slots()[before];
    const bool is_own = last.stream == slot.stream;
    if (is_own && !is_shared_[before]) continue;
    for (const StreamMark& end : ends_[before]) {
      if (!order_->RunBehind(end, slot.stream).ok()) return false;
    }
    // The stream is behind them now, and no slot of another one waits for them.
    if (is_own && !last.is_awaited) ForgetEnds(before);
  }
  return true;
}

bool PlannedArena::RunsBehindAll(int stream) {
  std::vector<StreamMark> ends = OutsideEnds();
  for (int other = 0; other < order_->streams(); ++other) {
    if (other == stream) continue;
    auto mark = order_->Mark(other);
    if (!mark.ok()) return false;
    ends.push_back(*std::move(mark));
  }
  return std::all_of(ends.begin(), ends.end(), [&](const StreamMark& end) {
    return order_->RunBehind(end, stream).ok();
  });
}

void* PlannedArena::Allocate(Bytes size, int stream, ArenaVerdict* verdict) {
  using What = ArenaVerdict::What;
  ArenaVerdict unheard;
  if (verdict == nullptr) verdict = &unheard;
  *verdict = {What::kPlanned, cursor_};
  const int index = Match(size, stream);
  if (index < 0) {
    const bool is_over = cursor_ == static_cast<int>(plan_.slots().size());
    counts_.unexpected += is_over ? 0 : 1;
    verdict->what = is_over ? What::kBeyond : What::kUnexpected;
    return nullptr;
  }
  if (index != cursor_) SkipTo(index);
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  if (slot.offset == kUnplaced) {
    ++cursor_;
    *verdict = {What::kUnplaced, index};
    return nullptr;
  }
  const bool is_free = ComeUp(index) && (late_.empty() || !MeetsLate(slot)) &&
                       (backing_ == nullptr || backing_->Back(slot));
  ++cursor_;
  if (!is_free || (order_ != nullptr && !RunsBehindPreceding(slot))) {
    turns_[index] = Turn::kNotServed;
    ++counts_.occupied;
    *verdict = {What::kOccupied, index};
    return nullptr;
  }
  return Serve(index);
}

void PlannedArena::ExpectAgain(const ArenaVerdict& verdict) {
  using What = ArenaVerdict::What;
  const bool is_occupied = verdict.what == What::kOccupied;
  counts_.occupied -= is_occupied ? 1 : 0;
  cursor_ -= is_occupied || verdict.what == What::kUnplaced ? 1 : 0;
}

void* PlannedArena::Serve(int index) {
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  turns_[index] = Turn::kServed;
  is_shared_[index] = 0;
  is_live_[index] = 1;
  live_at_[base_ + slot.offset] = index;
  served_at_[index] = Now();
  live_ += slot.end - slot.offset;
  ++counts_.planned;
  counts_.planned_bytes += Count(slot.size);
  return base_ + slot.offset;
}

const ArenaPlan::Slot* PlannedArena::Free(void* block,
                                          absl::Span<const int> others,
                                          absl::Span<const StreamMark> ends) {
  const auto found = live_at_.find(block);
  if (found == live_at_.end()) return nullptr;
  const int index = std::exchange(found->second, -1);
  if (index < 0) return nullptr;
  is_live_[index] = 0;
  lives_[index] = std::max(lives_[index], Now() + 1 - served_at_[index]);
  if (is_late_[index]) {
    is_late_[index] = 0;
    late_.erase(std::find(late_.begin(), late_.end(), index));
  }
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  live_ -= slot.end - slot.offset;
  is_shared_[index] = others.empty() && ends.empty() ? 0 : 1;
  if (!ends_[index].empty()) ends_[index].clear();
  has_outside_[index] = ends.empty() ? 0 : 1;
  if (!ends.empty()) ends_[index].assign(ends.begin(), ends.end());
  if (order_ != nullptr && (slot.is_awaited || !others.empty())) {
    NoteEnd(index, others);
  }
  return &slot;
}

std::vector<StreamMark> PlannedArena::OutsideEnds() const {
  std::vector<StreamMark> ends;
  for (size_t slot = 0; slot < ends_.size(); ++slot) {
    if (!has_outside_[slot]) continue;
    ends.insert(ends.end(), ends_[slot].begin(), ends_[slot].end());
  }
  return ends;
}

// The slot's own stream is behind them. Pages that the next slot does not use
// are unmapped behind those of work beside streams all the same.
void PlannedArena::ForgetEnds(int slot) {
  is_shared_[slot] = 0;
  if (!has_outside_[slot]) ends_[slot].clear();
}

void PlannedArena::ForgetOutsideEnds() {
  std::fill(has_outside_.begin(), has_outside_.end(), 0);
}

void PlannedArena::NoteEnd(int slot, absl::Span<const int> others) {
  absl::InlinedVector<int, 4> streams = {plan_.slots()[slot].stream};
  streams.insert(streams.end(), others.begin(), others.end());
  for (const int stream : streams) {
    auto mark = order_->Mark(stream);
    if (!mark.ok()) {
      turns_[slot] = Turn::kNotServed;
      return;
    }
    ends_[slot].push_back(*std::move(mark));
  }
}

std::vector<const ArenaPlan::Slot*> PlannedArena::Live() const {
  std::vector<const ArenaPlan::Slot*> live;
  for (size_t slot = 0; slot < is_live_.size(); ++slot) {
    if (is_live_[slot]) live.push_back(&plan_.slots()[slot]);
  }
  std::sort(live.begin(), live.end(),
            [](const ArenaPlan::Slot* a, const ArenaPlan::Slot* b) {
              return a->offset < b->offset;
            });
  return live;
}

}  // namespace ebbtide
