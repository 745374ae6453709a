// What goes when memory is short, and how.
#include <cstdio>
#include <utility>

#include "hooks/residency.h"
#include "hooks/stream_order.h"

namespace ebbtide {

// `is_short`: of memory, so that nothing waits for its planned instant. True if
// something was freed.
bool Residency::FreeWritten(bool is_short) {
  bool freed = false;
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    const auto tape = leaving.tape.lock();
    if (tape == nullptr) return true;
    const auto slot = tape->storages[leaving.storage].spill;
    if (slot == nullptr) return true;
    if (!is_short && tape->planned_instant < leaving.until) return false;
    if (!slot->IsWritten()) return false;
    freed |= Complete(tape.get(), leaving.storage);
    return true;
  });
  return freed;
}

bool Residency::Complete(Tape* tape, int index) {
  TapeStorage& storage = tape->storages[index];
  if (!storage.spill) return false;
  const absl::Status written = tier_->FinishWrite(storage.spill.get());
  if (!written.ok()) {
    storage.spill.reset();
    GiveUpSpilling(written);
    return false;
  }
  if (!IsEvictable(storage)) return false;
  LetGo(&storage);
  return true;
}

void Residency::GiveUpSpilling(const absl::Status& why) {
  if (!spill_failure_.empty()) return;
  spill_failure_ = std::string(why.message());
  std::fprintf(stderr, "ebbtide: no more spilling: %s\n",
               spill_failure_.c_str());
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

std::optional<Victim> Residency::BestVictim(const Pressure& pressure) {
  Bytes needed = pressure.needed;
  std::optional<double> cost;
  if (CanSpill()) cost = tier_->CostPerByte();
  // What is on its way out will go, too.
  if (tier_ != nullptr) needed -= tier_->in_flight();
  EvictionChoice choice(static_cast<double>(Count(needed)));
  std::vector<Victim> victims;
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr || tape->hooks == 0) continue;
    const double now = tape.get() == positioned_ ? position_ : tape->clock;
    OfferVictims(tape, pressure, now, cost, &choice, &victims);
  }
  if (choice.best() < 0) return std::nullopt;
  return std::move(victims[choice.best()]);
}

// What was brought back ahead of need goes before an allocation fails.
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
    Tape* const tape = victim->tape.get();
    const size_t bytes = tape->storages[victim->storage].bytes;
    bool has_gone = false;
    if (victim->how == Victim::How::kDrop) {
      has_gone = Drop(tape, victim->storage);
    } else {
      Spill(victim->tape, victim->storage);
      has_gone = Complete(tape, victim->storage);
    }
    relieved = relieved || has_gone;
    if (has_gone && Device::Get().MakesRoom(Device::Get().SizeOnDevice(bytes),
                                            pressure.needed)) {
      break;
    }
    if (!has_gone && std::exchange(failed, true)) break;
  }
  return relieved;
}

}  // namespace ebbtide
