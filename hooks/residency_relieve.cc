// Evicts storages when memory is short.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hooks/residency.h"
#include "hooks/stream_order.h"
#include "planner/size.h"

namespace ebbtide {

// `is_short`: of memory, so that nothing waits for its planned instant. True if
// something was freed.
bool Residency::FreeWritten(bool is_short) {
  bool freed = false;
  // The bytes of a device are written in the order in which they left.
  std::optional<int> writing;
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    const auto tape = leaving.tape.lock();
    if (tape == nullptr) return true;
    const auto slot = tape->storages[leaving.storage].spill;
    if (slot == nullptr) return true;
    if (!is_short && tape->planned_instant < leaving.until) return false;
    const int device = tape->storages[leaving.storage].device;
    if (writing == device) return false;
    if (!slot->IsWritten()) {
      writing = device;
      return false;
    }
    freed |= Complete(tape.get(), leaving.storage);
    return true;
  });
  return freed;
}

bool Residency::Complete(Tape* tape, int index) {
  TapeStorage& storage = tape->storages[index];
  if (!storage.spill || !IsEvictable(storage, /*least=*/0)) return false;
  const absl::Status written = tier_->FinishWrite(storage.spill.get());
  if (!written.ok()) {
    storage.spill.reset();
    GiveUpSpilling(written);
    return false;
  }
  LetGo(&storage);
  return true;
}

void Residency::GiveUpSpilling(const absl::Status& why) {
  if (!spill_failure_.empty()) return;
  spill_failure_ = std::string(why.message());
  say_(absl::StrCat("no more ", Device::Get().tier_words().moving, ": ",
                    spill_failure_));
}

void Residency::NoteFull(Bytes refused) {
  if (std::exchange(full_said_, true)) return;
  const TierRoom room = tier_->room();
  say_(absl::StrCat("no room to ", Device::Get().tier_words().move, " ",
                    FormatSize(refused), ", ", FormatSize(room.used),
                    " of at most ", FormatSize(room.limit),
                    " are used: what finds none stays or is recomputed"));
}

void Residency::NoteRefusal() {
  const absl::Status refused = tier_->TakeRefusal();
  if (refused.ok()) return;
  say_(absl::StrCat("host memory is not pinned, so the job waits for copies: ",
                    std::string(refused.message())));
}

bool Residency::WaitForWrite() {
  while (!leaving_.empty()) {
    const Leaving first = leaving_.front();
    leaving_.erase(leaving_.begin());
    const auto tape = first.tape.lock();
    const bool freed = tape != nullptr && Complete(tape.get(), first.storage);
    if (FreeWritten(/*is_short=*/true) || freed) return true;
  }
  return false;
}

EvictionQuery Residency::QueryFor(const Tape& tape, const Pressure& pressure,
                                  size_t least) const {
  EvictionQuery query = {.pressure = pressure,
                         .now = &tape == positioned_ ? position_ : tape.clock,
                         .least = least};
  if (CanSpill()) {
    query.spill = {.cost = tier_->CostPerByte(),
                   .largest = tier_->room().largest};
  }
  return query;
}

std::optional<Victim> Residency::BestVictim(const Pressure& pressure,
                                            size_t least) {
  Bytes needed = pressure.needed;
  // Bytes of unfinished copies out will be freed, too.
  if (tier_ != nullptr) needed -= tier_->in_flight();
  EvictionChoice choice(static_cast<double>(Count(needed)));
  std::vector<Victim> victims;
  Bytes refused{};
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr || tape->hooks == 0) continue;
    refused =
        std::max(refused, OfferVictims(tape, QueryFor(*tape, pressure, least),
                                       &choice, &victims));
  }
  if (refused > Bytes{}) NoteFull(refused);
  if (choice.best() >= 0) return std::move(victims[choice.best()]);
  // Small ones may lie where memory is given back in pieces only.
  if (least == 0 || !Device::Get().is_async()) return std::nullopt;
  return BestVictim(pressure, /*least=*/0);
}

// True if that has freed its bytes.
bool Residency::Evict(const Victim& victim) {
  if (victim.how == Victim::How::kDrop) {
    return Drop(victim.tape.get(), victim.storage);
  }
  Spill(victim.tape, victim.storage);
  return Complete(victim.tape.get(), victim.storage);
}

// Cancels prefetched storages that are not needed yet, before an allocation
// fails.
bool Residency::CancelPrefetch() {
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr) continue;
    for (TapeStorage& storage : tape->storages) {
      if (storage.pins > 0 || !storage.spill || !storage.spill->IsReading()) {
        continue;
      }
      tier_->CancelRead(storage.spill.get());
      return true;
    }
  }
  return false;
}

bool Residency::RelieveAtOnce(const Pressure& pressure) {
  bool relieved = WaitForWrite();
  if (verify_) return relieved;  // reads bytes, and so would wait
  bool failed = false;
  while (const std::optional<Victim> victim = BestVictim(pressure)) {
    const size_t bytes = victim->tape->storages[victim->storage].bytes;
    const bool has_gone = Evict(*victim);
    relieved = relieved || has_gone;
    if (has_gone && Device::Get().SizeOnDevice(bytes) >= pressure.needed) break;
    if (!has_gone && std::exchange(failed, true)) break;
  }
  return relieved;
}

}  // namespace ebbtide
