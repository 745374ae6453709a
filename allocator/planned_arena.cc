#include "allocator/planned_arena.h"

#include <algorithm>
#include <utility>

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

}  // namespace

PlannedArena::PlannedArena(ArenaPlan plan, char* base, Bytes fallback,
                           ArenaOrder* order)
    : plan_(std::move(plan)),
      base_(base),
      order_(order),
      fallback_begin_(Count(plan_.height())),
      fallback_end_(fallback_begin_ + Count(fallback) / kPiece * kPiece),
      turns_(plan_.slots().size(), Turn::kNever),
      is_live_(plan_.slots().size()),
      live_at_(plan_.sites().size(), -1),
      is_late_(plan_.slots().size()),
      pieces_end_(fallback_begin_) {
  for (int site = 0; site < static_cast<int>(plan_.sites().size()); ++site) {
    site_at_[plan_.sites()[site]] = site;
  }
  late_.reserve(plan_.slots().size());
  stream_of_piece_.reserve((fallback_end_ - fallback_begin_) / kPiece);
}

void PlannedArena::BeginPhase(int phase) {
  std::lock_guard lock(mutex_);
  if (phase <= phase_) {
    SkipTo(static_cast<int>(plan_.slots().size()));
    cursor_ = 0;
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
  const int end = std::min(cursor_ + 1 + kLookAhead,
                           static_cast<int>(plan_.slots().size()));
  for (int i = cursor_; i < end; ++i) {
    const ArenaPlan::Slot& slot = plan_.slots()[i];
    if (slot.size == size && slot.stream == stream) return i;
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
  return std::any_of(late_.begin(), late_.end(), [&](int index) {
    const ArenaPlan::Slot& late = plan_.slots()[index];
    return late.offset < slot.end && slot.offset < late.end;
  });
}

bool PlannedArena::RunsBehindPreceding(const ArenaPlan::Slot& slot) {
  if (order_ == nullptr) return true;
  bool knows_all = true;
  for (const int before : plan_.PrecedingOf(slot)) {
    knows_all &= turns_[before] != Turn::kNotServed;
  }
  // Who used the addresses of one that was not served is not looked for.
  if (!knows_all) return order_->RunBehindAll(slot.stream).ok();
  for (const int before : plan_.PrecedingOf(slot)) {
    if (turns_[before] == Turn::kNever) continue;
    if (plan_.slots()[before].stream == slot.stream) continue;
    if (!order_->RunBehind(before, slot.stream).ok()) return false;
  }
  return true;
}

void* PlannedArena::Allocate(Bytes size, int stream) {
  std::lock_guard lock(mutex_);
  const int index = Match(size, stream);
  if (index < 0) {
    ++counts_.unexpected;
    return FallBack(size, stream);
  }
  SkipTo(index);
  ++cursor_;
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  if (!ComeUp(index) || MeetsLate(slot) || !RunsBehindPreceding(slot)) {
    turns_[index] = Turn::kNotServed;
    ++counts_.occupied;
    return FallBack(size, stream);
  }
  turns_[index] = Turn::kServed;
  is_live_[index] = 1;
  live_at_[slot.site] = index;
  ++counts_.planned;
  return base_ + slot.offset;
}

bool PlannedArena::Free(void* block) {
  std::lock_guard lock(mutex_);
  const int64_t offset = static_cast<char*>(block) - base_;
  if (offset < 0 || offset >= fallback_end_) return false;
  return offset < fallback_begin_ ? FreeSlot(offset) : FreeFallback(offset);
}

bool PlannedArena::FreeSlot(int64_t offset) {
  const auto site = site_at_.find(offset);
  if (site == site_at_.end()) return false;
  const int index = std::exchange(live_at_[site->second], -1);
  if (index < 0) return false;
  is_live_[index] = 0;
  if (is_late_[index]) {
    is_late_[index] = 0;
    late_.erase(std::find(late_.begin(), late_.end(), index));
  }
  const ArenaPlan::Slot& slot = plan_.slots()[index];
  if (order_ != nullptr && slot.is_awaited &&
      !order_->NoteEnd(index, slot.stream).ok()) {
    turns_[index] = Turn::kNotServed;
  }
  return true;
}

bool PlannedArena::FreeFallback(int64_t offset) {
  const int64_t piece = (offset - fallback_begin_) / kPiece;
  if (piece >= static_cast<int64_t>(stream_of_piece_.size())) return false;
  Tlsf& pool = fallbacks_[stream_of_piece_[piece]];
  const auto size = pool.SizeOf(offset);
  if (!size) return false;
  pool.Give(offset);
  counts_.fallback_bytes -= Count(*size);
  return true;
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
  counts_.fallback_peak =
      std::max(counts_.fallback_peak, counts_.fallback_bytes);
  return base_ + extent->offset;
}

bool PlannedArena::Grow(Bytes size, int stream) {
  // A class of blocks above the size, so that the request is served from it.
  const int64_t least = RoundUp(Count(size) + Count(size) / 16, kPiece);
  const int64_t room = fallback_end_ - pieces_end_;
  if (least > room) return false;
  const int64_t taken = std::min(std::max(least, kPiecesAtOnce * kPiece), room);
  fallbacks_[stream].AddRange({pieces_end_, Bytes{taken}});
  stream_of_piece_.resize(stream_of_piece_.size() + taken / kPiece, stream);
  pieces_end_ += taken;
  return true;
}

ArenaCounts PlannedArena::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace ebbtide
