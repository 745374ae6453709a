#include "allocator/planned_arena.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace ebbtide {
namespace {

// Behind the next request of the plan, those that one is taken for.
constexpr int kLookAhead = 8;
// More late blocks than are looked through for each request.
constexpr size_t kManyLate = 16;
// The fallback is given to streams in pieces.
constexpr int64_t kPiece = 2 << 20;
constexpr int64_t kPiecesAtOnce = 10;

int64_t RoundUp(int64_t size, int64_t grain) {
  return (size + grain - 1) / grain * grain;
}

int64_t BeginOfLastRun(const ArenaSpace& space) {
  if (space.runs().empty()) return 0;
  return space.next() - kArenaGrain - Count(space.runs().back().size);
}

}  // namespace

PlannedArena::PlannedArena(ArenaPlan plan, ArenaSpace space, Bytes fallback,
                           ArenaOrder* order)
    : planned_end_(std::max(Count(plan.height()), BeginOfLastRun(space))),
      fallback_(space.runs().empty() ? nullptr : space.At(planned_end_)),
      fallback_size_(Count(fallback) / kPiece * kPiece),
      order_(order),
      plan_(std::move(plan)),
      space_(std::move(space)),
      top_(planned_end_),
      turns_(plan_.slots().size(), Turn::kNever),
      is_live_(plan_.slots().size()),
      live_at_(plan_.sites().size(), -1),
      is_shared_(plan_.slots().size()),
      is_late_(plan_.slots().size()) {
  for (const int64_t offset : plan_.sites()) {
    site_at_[space_.At(offset)] = static_cast<int>(addresses_.size());
    addresses_.push_back(space_.At(offset));
  }
  for (const int64_t wall : space_.Walls()) {
    if (wall < top_) obstacles_.push_back({wall, wall + kArenaGrain});
  }
  late_.reserve(plan_.slots().size());
  stream_of_piece_.reserve(fallback_size_ / kPiece);
}

void* PlannedArena::ServeFrom(const ArenaRun& run, int index) {
  const std::lock_guard lock(lock_);
  if (mode_ != Mode::kPlanned || plan_.slots()[index].offset != kUnplaced) {
    return nullptr;
  }
  const int64_t begin = space_.next();
  obstacles_.push_back({top_, begin});
  space_.Append(run);
  top_ = begin + Count(run.size);
  plan_.PlaceAlone(index, begin);
  site_at_[run.base] = static_cast<int>(addresses_.size());
  addresses_.push_back(run.base);
  live_at_.push_back(-1);
  return Serve(index);
}

void PlannedArena::BeginPhase(int phase) {
  const std::lock_guard lock(lock_);
  if (phase <= phase_) {
    SkipTo(static_cast<int>(plan_.slots().size()));
    cursor_ = 0;
    if (strays_.empty() && unknown_steps_ > 0) --unknown_steps_;
  }
  phase_ = phase;
  SkipTo(plan_.BeginOf(phase));
}

void PlannedArena::SkipTo(int slot) {
  for (; cursor_ < slot; ++cursor_) {
    ComeUp(cursor_);
    turns_[cursor_] = Turn::kNotServed;
    ++counts_.skipped;
  }
}

// Where the next step's first requests come without a BeginPhase they find
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

// It is the slot's turn: marks what is late. Whether nothing of that is there.
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
  if (!strays_.empty()) {
    const auto above = strays_.lower_bound(slot.end);
    if (above != strays_.begin() && std::prev(above)->second > slot.offset) {
      return true;
    }
  }
  return std::any_of(late_.begin(), late_.end(), [&](int index) {
    const ArenaPlan::Slot& late = plan_.slots()[index];
    return late.offset < slot.end && slot.offset < late.end;
  });
}

bool PlannedArena::RunsBehindPreceding(const ArenaPlan::Slot& slot) {
  bool knows_all = unknown_steps_ == 0;
  for (const int before : plan_.PrecedingOf(slot)) {
    knows_all &= turns_[before] != Turn::kNotServed;
  }
  // Who used the addresses of one that was not served is not looked for.
  if (!knows_all) return order_->RunBehindAll(slot.stream).ok();
  for (const int before : plan_.PrecedingOf(slot)) {
    if (turns_[before] == Turn::kNever) continue;
    const bool is_own = plan_.slots()[before].stream == slot.stream;
    if (is_own && !is_shared_[before]) continue;
    if (!order_->RunBehind(before, slot.stream).ok()) return false;
  }
  return true;
}

void* PlannedArena::Allocate(Bytes size, int stream, ArenaVerdict* verdict) {
  using What = ArenaVerdict::What;
  ArenaVerdict unheard;
  if (verdict == nullptr) verdict = &unheard;
  const std::lock_guard lock(lock_);
  *verdict = {What::kPlanned, cursor_};
  if (mode_ != Mode::kPlanned) return nullptr;
  const int index = Match(size, stream);
  if (index < 0) {
    const bool is_over = cursor_ == static_cast<int>(plan_.slots().size());
    ++(is_over ? counts_.beyond : counts_.unexpected);
    verdict->what = is_over ? What::kBeyond : What::kUnexpected;
    return FallBack(size, stream);
  }
  if (index != cursor_) SkipTo(index);
  ++cursor_;
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  if (slot.offset == kUnplaced) {
    ++counts_.unplaced;
    *verdict = {What::kUnplaced, index};
    return nullptr;
  }
  const bool is_clear = late_.empty() && strays_.empty();
  if (!ComeUp(index) || (!is_clear && MeetsLate(slot)) ||
      (order_ != nullptr && !RunsBehindPreceding(slot))) {
    turns_[index] = Turn::kNotServed;
    ++counts_.occupied;
    verdict->what = What::kOccupied;
    return FallBack(size, stream);
  }
  return Serve(index);
}

void* PlannedArena::Serve(int index) {
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  turns_[index] = Turn::kServed;
  is_live_[index] = 1;
  is_shared_[index] = 0;
  live_at_[slot.site] = index;
  ++live_;
  ++counts_.planned;
  counts_.planned_bytes += Count(slot.size);
  return addresses_[slot.site];
}

// Slots that are live lie at the sites, which ascend, as strays and obstacles
// do.
int64_t PlannedArena::HighestHole(int64_t size) const {
  int64_t top = top_;  // of the hole that is looked at
  auto site = static_cast<int>(plan_.sites().size());
  auto stray = strays_.rbegin();
  auto obstacle = obstacles_.rbegin();
  for (;;) {
    while (site > 0 && live_at_[site - 1] < 0) --site;
    Obstacle below = {-1, 0};  // what is next below
    const auto offer = [&below](int64_t begin, int64_t end) {
      if (begin > below.begin) below = {begin, end};
    };
    if (site > 0) {
      offer(plan_.sites()[site - 1], plan_.slots()[live_at_[site - 1]].end);
    }
    if (stray != strays_.rend()) offer(stray->first, stray->second);
    if (obstacle != obstacles_.rend()) offer(obstacle->begin, obstacle->end);
    if (top - below.end >= size) return top - size;
    if (below.begin < 0) return -1;
    if (site > 0 && plan_.sites()[site - 1] == below.begin) --site;
    if (stray != strays_.rend() && stray->first == below.begin) ++stray;
    if (obstacle != obstacles_.rend() && obstacle->begin == below.begin) {
      ++obstacle;
    }
    top = below.begin;
  }
}

void* PlannedArena::AllocateAnywhere(Bytes size, int stream) {
  const std::lock_guard lock(lock_);
  if (mode_ == Mode::kClosed || space_.runs().empty()) return nullptr;
  const int64_t need = RoundUp(Count(size), kArenaGrain);
  const int64_t found = HighestHole(need);
  if (found < 0) return nullptr;
  if (order_ != nullptr && !order_->RunBehindAll(stream).ok()) return nullptr;
  strays_[found] = found + need;
  unknown_steps_ = 2;
  ++live_;
  ++counts_.strays;
  counts_.elsewhere_bytes += need;
  return space_.At(found);
}

bool PlannedArena::Free(void* block, absl::Span<const int> others) {
  const std::lock_guard lock(lock_);
  const int64_t offset = static_cast<char*>(block) - fallback_;
  const bool freed = offset >= 0 && offset < fallback_size_
                         ? FreeFallback(offset, others)
                         : FreeSlot(block, others) || FreeStray(block);
  if (freed) --live_;
  return freed;
}

bool PlannedArena::FreeSlot(const void* block, absl::Span<const int> others) {
  const auto site = site_at_.find(block);
  if (site == site_at_.end()) return false;
  const int index = std::exchange(live_at_[site->second], -1);
  if (index < 0) return false;
  is_live_[index] = 0;
  if (is_late_[index]) {
    is_late_[index] = 0;
    late_.erase(std::find(late_.begin(), late_.end(), index));
  }
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  is_shared_[index] = others.empty() ? 0 : 1;
  if (order_ != nullptr && (slot.is_awaited || !others.empty())) {
    NoteEnd(index, others);
  }
  return true;
}

void PlannedArena::NoteEnd(int slot, absl::Span<const int> others) {
  absl::InlinedVector<int, 4> streams = {plan_.slots()[slot].stream};
  streams.insert(streams.end(), others.begin(), others.end());
  if (!order_->NoteEnd(slot, streams).ok()) turns_[slot] = Turn::kNotServed;
}

// Who is next at its addresses runs behind all streams.
bool PlannedArena::FreeStray(const void* block) {
  const auto offset = space_.OffsetOf(block);
  if (!offset || strays_.erase(*offset) == 0) return false;
  unknown_steps_ = 2;
  return true;
}

// Its stream goes on behind the others, because it may have the block next;
// where that cannot be, nobody has it.
bool PlannedArena::FreeFallback(int64_t offset, absl::Span<const int> others) {
  const int64_t piece = offset / kPiece;
  if (piece >= static_cast<int64_t>(stream_of_piece_.size())) return false;
  const int stream = stream_of_piece_[piece];
  Tlsf& pool = fallbacks_[stream];
  const auto size = pool.SizeOf(offset);
  if (!size) return false;
  if (others.empty() || order_ == nullptr ||
      order_->RunBehindAll(stream).ok()) {
    pool.Give(offset);
  }
  counts_.fallback_bytes -= Count(*size);
  return true;
}

void PlannedArena::Leave() {
  const std::lock_guard lock(lock_);
  if (mode_ == Mode::kPlanned) mode_ = Mode::kLeaving;
}

bool PlannedArena::Close() {
  const std::lock_guard lock(lock_);
  if (live_ > 0) return false;
  mode_ = Mode::kClosed;
  return true;
}

// Where blocks begin, ascending; of the fallback: where that does.
std::vector<const char*> PlannedArena::Live() const {
  std::vector<const char*> live;
  for (size_t site = 0; site < addresses_.size(); ++site) {
    if (live_at_[site] >= 0) live.push_back(addresses_[site]);
  }
  for (const auto& [begin, end] : strays_) live.push_back(space_.At(begin));
  if (counts_.fallback_bytes > 0) live.push_back(fallback_);
  std::sort(live.begin(), live.end());
  return live;
}

std::vector<ArenaRun> PlannedArena::CloseIdle(
    absl::Span<const ArenaRun> memory) {
  const std::lock_guard lock(lock_);
  std::vector<ArenaRun> idle;
  if (mode_ != Mode::kLeaving) return idle;
  const std::vector<const char*> live = Live();
  for (const ArenaRun& run : memory) {
    const auto in = std::lower_bound(live.begin(), live.end(), run.base);
    const bool is_live = in != live.end() && *in < run.end();
    if (!is_live && closed_.insert(run.base).second) idle.push_back(run);
  }
  for (size_t i = 0; i < space_.runs().size(); ++i) {
    const char* const base = space_.runs()[i].base;
    const bool is_closed =
        std::any_of(idle.begin(), idle.end(), [&](const ArenaRun& run) {
          return run.base <= base && base < run.end();
        });
    if (is_closed) obstacles_.push_back({space_.BeginOf(i), space_.EndOf(i)});
  }
  std::sort(
      obstacles_.begin(), obstacles_.end(),
      [](const Obstacle& a, const Obstacle& b) { return a.begin < b.begin; });
  return idle;
}

void* PlannedArena::FallBack(Bytes size, int stream) {
  if (stream >= static_cast<int>(fallbacks_.size())) {
    fallbacks_.resize(stream + 1);
  }
  auto extent = fallbacks_[stream].Take(size);
  if (!extent && Grow(size, stream)) extent = fallbacks_[stream].Take(size);
  if (!extent) {
    ++counts_.refused;
    return nullptr;
  }
  ++counts_.fallback;
  counts_.fallback_bytes += Count(extent->size);
  counts_.elsewhere_bytes += Count(extent->size);
  ++live_;
  counts_.fallback_peak =
      std::max(counts_.fallback_peak, counts_.fallback_bytes);
  return fallback_ + extent->offset;
}

bool PlannedArena::Grow(Bytes size, int stream) {
  // A class of blocks above the size, so that the request is served from it.
  const int64_t least = RoundUp(Count(size) + Count(size) / 16, kPiece);
  const int64_t room = fallback_size_ - pieces_end_;
  if (least > room) return false;
  const int64_t taken = std::min(std::max(least, kPiecesAtOnce * kPiece), room);
  fallbacks_[stream].AddRange({pieces_end_, Bytes{taken}});
  stream_of_piece_.resize(stream_of_piece_.size() + taken / kPiece, stream);
  pieces_end_ += taken;
  return true;
}

ArenaCounts PlannedArena::counts() const {
  const std::lock_guard lock(lock_);
  return counts_;
}

}  // namespace ebbtide
