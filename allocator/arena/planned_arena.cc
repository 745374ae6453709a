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
                           Back back)
    : plan_(std::move(plan)),
      base_(base),
      order_(order),
      back_(std::move(back)),
      states_(plan_.slots().size()),
      lives_(plan_.slots().size()) {
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
    states_[cursor_].turn = Turn::kNotServed;
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
    State& state = states_[before];
    if (!state.is_live) continue;
    is_free = false;
    if (!std::exchange(state.is_late, true)) late_.push_back(before);
  }
  return is_free;
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
    knows_all &= states_[before].turn != Turn::kNotServed;
  }
  // The streams that used the addresses of one that was not served are not
  // looked for.
  if (!knows_all) return RunsBehindAll(slot.stream);
  for (const int before : plan_.PrecedingOf(slot)) {
    State& state = states_[before];
    if (state.turn == Turn::kNever) continue;
    const ArenaPlan::Slot& last = plan_.slots()[before];
    const bool is_own = last.stream == slot.stream;
    if (is_own && !state.is_shared) continue;
    for (const StreamMark& end : state.ends) {
      if (!order_->RunBehind(end, slot.stream).ok()) return false;
    }
    if (!is_own || last.is_awaited) continue;
    // The stream is behind them now, and no slot of another one waits for them.
    // Pages that the next slot does not use are unmapped behind those of work
    // beside streams all the same.
    state.is_shared = false;
    if (!state.has_outside) state.ends.clear();
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
                       (back_ == nullptr || back_(slot));
  ++cursor_;
  if (!is_free || (order_ != nullptr && !RunsBehindPreceding(slot))) {
    states_[index].turn = Turn::kNotServed;
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
  State& state = states_[index];
  state.turn = Turn::kServed;
  state.is_live = true;
  state.is_shared = false;
  state.served_at = Now();
  live_at_[base_ + slot.offset] = index;
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
  State& state = states_[index];
  state.is_live = false;
  lives_[index] = std::max(lives_[index], Now() + 1 - state.served_at);
  if (std::exchange(state.is_late, false)) {
    late_.erase(std::find(late_.begin(), late_.end(), index));
  }
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  live_ -= slot.end - slot.offset;
  state.is_shared = !others.empty() || !ends.empty();
  state.has_outside = !ends.empty();
  if (!state.ends.empty()) state.ends.clear();
  if (!ends.empty()) state.ends.assign(ends.begin(), ends.end());
  if (order_ != nullptr && (slot.is_awaited || !others.empty())) {
    NoteEnd(index, others);
  }
  return &slot;
}

std::vector<StreamMark> PlannedArena::OutsideEnds() const {
  std::vector<StreamMark> ends;
  for (const State& state : states_) {
    if (!state.has_outside) continue;
    ends.insert(ends.end(), state.ends.begin(), state.ends.end());
  }
  return ends;
}

void PlannedArena::ForgetOutsideEnds() {
  for (State& state : states_) state.has_outside = false;
}

void PlannedArena::NoteEnd(int slot, absl::Span<const int> others) {
  absl::InlinedVector<int, 4> streams = {plan_.slots()[slot].stream};
  streams.insert(streams.end(), others.begin(), others.end());
  for (const int stream : streams) {
    auto mark = order_->Mark(stream);
    if (!mark.ok()) {
      states_[slot].turn = Turn::kNotServed;
      return;
    }
    states_[slot].ends.push_back(*std::move(mark));
  }
}

std::vector<const ArenaPlan::Slot*> PlannedArena::Live() const {
  std::vector<const ArenaPlan::Slot*> live;
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    if (states_[slot].is_live) live.push_back(&plan_.slots()[slot]);
  }
  std::sort(live.begin(), live.end(),
            [](const ArenaPlan::Slot* a, const ArenaPlan::Slot* b) {
              return a->offset < b->offset;
            });
  return live;
}

}  // namespace ebbtide
