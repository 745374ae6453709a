#include "hooks/residency.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/string_view.h"
#include "allocator/allocation_kind.h"
#include "hooks/device.h"
#include "hooks/device_spans.h"
#include "hooks/insist.h"
#include "hooks/outside.h"
#include "hooks/proving.h"
#include "hooks/recipe.h"
#include "hooks/recovery.h"
#include "hooks/run_log.h"
#include "hooks/stream_order.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

// Bytes brought back ahead of need, counted against the budget.
constexpr int64_t kPrefetchWindow = 32 << 20;

// The op that made it, for people.
absl::string_view NameOf(const Tape& tape, int storage) {
  const auto& writers = tape.storages[storage].writers;
  const absl::string_view maker = tape.storages[storage].maker;
  if (writers.empty()) return maker.empty() ? "input" : maker;
  return tape.ops[writers.back()].info->name;
}

}  // namespace

// Adds the time of its scope to what ebbtide took, once where calls nest.
class Residency::Timed {
 public:
  explicit Timed(Residency* residency)
      : residency_(*residency), begin_(std::chrono::steady_clock::now()) {
    ++residency_.depth_;
  }
  ~Timed() {
    if (--residency_.depth_ > 0) return;
    residency_.own_nanoseconds_ +=
        std::chrono::duration<double, std::nano>(
            std::chrono::steady_clock::now() - begin_)
            .count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Residency& residency_;
  const std::chrono::steady_clock::time_point begin_;
};

void Residency::Add(const std::shared_ptr<Tape>& tape) {
  std::erase_if(tapes_, [](const auto& known) { return known.expired(); });
  tapes_.push_back(tape);
}

void Residency::SetTier(std::unique_ptr<HostTier> tier) {
  tier_ = std::move(tier);
  LogCopies();
}

void Residency::SetPosition(const Tape* tape, double position) {
  positioned_ = tape;
  position_ = position;
}

c10::Storage Residency::Fetch(Tape* tape, int index) {
  const Timed timed(this);
  TapeStorage& storage = tape->storages[index];
  if (!storage.data && storage.spill) {
    const QueuedSpan span(SpanKind::kStall, NameOf(*tape, index), storage.bytes,
                          storage.logged, tape->device);
    ++storage.pins;
    const auto unpin = absl::MakeCleanup([&storage] { --storage.pins; });
    auto bytes = Insist([&] { return tier_->FinishRead(storage.spill.get()); });
    TORCH_CHECK(bytes.ok(), "ebbtide: cannot bring back a saved tensor: ",
                std::string(bytes.status().message()));
    storage.data = *std::move(bytes);
    NoteMadeHere(&storage);
    RunLog::Global().NoteReturn(storage.data.data(), storage.logged,
                                storage.behind);
    LogTier();
    counts_.bytes_restored += storage.bytes;
  }
  if (!storage.data) Rebuild(tape, index, [](int) { return true; });
  UseHere(&storage);
  c10::Storage bytes = storage.data;
  PrefetchBefore(tape, storage.last_pack);
  return bytes;
}

void Residency::PrefetchBefore(Tape* tape, int pack) {
  if (tier_ == nullptr) return;
  // Where memory may be refused, nothing goes to make room for what is only
  // expected.
  may_evict_ = !Device::Get().is_async();
  const auto evict_again = absl::MakeCleanup([this] { may_evict_ = true; });
  int64_t window = 0;
  auto& saves = tape->spilled_saves;
  auto save = saves.lower_bound(pack);
  while (save != saves.begin() && window < kPrefetchWindow) {
    const int at = *--save;
    const int index = tape->saves[at].storage;
    const TapeStorage& storage = tape->storages[index];
    if (!storage.spill || storage.hooks == 0) {
      save = saves.erase(save);
      continue;
    }
    if (storage.data || (tape->follows_plan && storage.returns)) continue;
    window += storage.bytes;
    if (storage.spill->IsReading()) continue;
    const Bytes size{static_cast<int64_t>(storage.bytes)};
    if (Device::Get().ledger(storage.device).WouldExceed(size + size) ||
        !Device::Get().FindsRoom(storage.device, size)) {
      return;
    }
    Prefetch(tape, index);
    if (!storage.spill->IsReading()) return;
    save = saves.lower_bound(at);  // an eviction may have offloaded something
                                   // to make room for it
  }
}

void Residency::Prefetch(Tape* tape, int index) {
  const Timed timed(this);
  TapeStorage& storage = tape->storages[index];
  // Where its way out has not ended yet, PrefetchBefore sees to it.
  storage.returns = false;
  if (storage.data || !storage.spill || storage.spill->IsReading()) return;
  // A failure occurs again, and is reported, when the bytes are needed.
  try {
    tier_->StartRead(storage.spill.get()).IgnoreError();
  } catch (const c10::Error&) {
  }
}

void Residency::Arrive(Tape* tape, int instant, Bytes room) {
  tape->planned_instant = instant;
  // At instants of the plan alone, so that lives are the same in each step.
  if (tier_ != nullptr && tier_->IsReusedBehindCopies(tape->device)) {
    room = Bytes{0};
  } else {
    Reap();
  }
  const auto is_late = [&](const Leaving& leaving) {
    return leaving.until <= instant && leaving.tape.lock().get() == tape;
  };
  int64_t late = 0;
  for (const Leaving& leaving : leaving_) {
    if (is_late(leaving)) late += tape->storages[leaving.storage].bytes;
  }
  while (late > Count(room)) {
    const Timed timed(this);
    const auto first = std::find_if(leaving_.begin(), leaving_.end(), is_late);
    const int storage = first->storage;
    leaving_.erase(first);
    late -= tape->storages[storage].bytes;
    Complete(tape, storage);
  }
}

bool Residency::Relieve(const Pressure& pressure) {
  const Timed timed(this);
  const WitnessScope allocation(WitnessScope::kAllocation);
  relieving_ = true;
  const auto relieved = absl::MakeCleanup([this] { relieving_ = false; });
  if (FreeWritten(/*is_short=*/true)) return true;
  if (!may_evict_) return false;
  if (pressure.is_locked) return RelieveAtOnce(pressure);
  while (true) {
    if (tier_ != nullptr && tier_->in_flight() >= pressure.needed &&
        WaitForWrite()) {
      return true;
    }
    const std::optional<Victim> victim = BestVictim(pressure);
    if (!victim) return CancelPrefetch() || WaitForWrite();
    if (victim->how == Victim::How::kDrop) {
      return Drop(victim->tape.get(), victim->storage);
    }
    if (!victim->tape->storages[victim->storage].spill) {
      Spill(victim->tape, victim->storage);
    } else if (Complete(victim->tape.get(), victim->storage)) {
      return true;
    }
  }
}

void Residency::LogEviction(const Tape& tape, int index,
                            Eviction::How how) const {
  if (!RunLog::Global().IsOpen()) return;
  const TapeStorage& storage = tape.storages[index];
  RunLog::Global().AddEviction(
      NameOf(tape, index), {.bytes = Bytes{static_cast<int64_t>(storage.bytes)},
                            .how = how,
                            .value = storage.logged,
                            .planned = !relieving_});
}

bool Residency::Drop(Tape* tape, int index) {
  const Timed timed(this);
  TapeStorage& storage = tape->storages[index];
  if (!IsEvictable(storage, /*least=*/0) || storage.awaited > 0) return false;
  // Until the tape holds what the recipe reads.
  const std::optional<Recipe> recipe = FindRecipe(*tape, index);
  if (!recipe) return false;
  storage.spill.reset();
  if (verify_) {
    UseHere(&storage);
    storage.digest = DigestOutside(GapsOf(*tape, index), storage.data);
  }
  LogEviction(*tape, index, Eviction::How::kDrop);
  ++counts_.drops;
  counts_.bytes_dropped += storage.bytes;
  ebbtide::Drop(tape, index);
  return true;
}

void Residency::Spill(const std::shared_ptr<Tape>& tape, int index, int until) {
  const Timed timed(this);
  TapeStorage& storage = tape->storages[index];
  if (!CanSpill() || storage.spill) return;
  if (!IsEvictable(storage, /*least=*/0)) return;
  const Bytes size{static_cast<int64_t>(storage.bytes)};
  if (size > tier_->room().largest) return NoteFull(size);
  auto slot = tier_->StartWrite(storage.data, NameOf(*tape, index),
                                MakerStream(&storage));
  if (!slot.ok()) {
    GiveUpSpilling(slot.status());
    return;
  }
  NoteRefusal();
  storage.spill = *std::move(slot);
  storage.returns = false;
  LogEviction(*tape, index, Eviction::How::kSpill);
  LogTier();
  ++counts_.spills;
  counts_.bytes_spilled += storage.bytes;
  for (int i = storage.last_pack; i >= 0; i = tape->saves[i].earlier) {
    tape->spilled_saves.insert(i);
  }
  leaving_.push_back({tape, index, until});
}

void Residency::Rebuild(Tape* tape, int index, std::function<bool(int)> hold) {
  const Timed timed(this);
  const QueuedSpan span(SpanKind::kRecompute, NameOf(*tape, index),
                        tape->storages[index].bytes,
                        tape->storages[index].logged, tape->device);
  const AllocationKind scratch(Kind::kScratch);
  const RecoveryPolicy policy = {
      .hold = std::move(hold),
      .restore = [this, tape](int storage) { Fetch(tape, storage); },
  };
  {
    const WitnessScope replay(WitnessScope::kReplay);
    counts_.ops_replayed +=
        Insist([&] { return Recover(tape, index, policy); });
  }
  TakeDueWitnesses();
  TapeStorage& rebuilt = tape->storages[index];
  RunLog::Global().NoteReturn(rebuilt.data.data(), rebuilt.logged,
                              rebuilt.behind);
  if (!rebuilt.digest) return;
  ++counts_.verified;
  if (*std::exchange(rebuilt.digest, std::nullopt) !=
      DigestOutside(GapsOf(*tape, index), rebuilt.data)) {
    on_mismatch_(tape, index);
  }
}

void Residency::BeforeWrite(Tape* tape, int written) {
  TapeStorage& storage = tape->storages[written];
  if (storage.dependents == 0) return;
  const Timed timed(this);
  // Recomputing takes memory, for which nothing may be dropped whose recipe
  // needs the storage about to be written. Recomputed storages may be
  // offloaded.
  storage.doomed = true;
  try {
    for (int i : FindDependents(*tape, written)) {
      if (!tape->storages[i].owed) continue;
      Rebuild(tape, i, [](int) { return true; });
    }
    EBBTIDE_CHECK(tape->storages[written].dependents == 0);
  } catch (const std::exception& error) {
    // The write happens all the same.
    tape->storages[written].rewritten = true;
    tape->ran_short |=
        dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr;
    throw;
  }
  tape->storages[written].doomed = false;
}

void Residency::TakeDueWitnesses() {
  if (!AreWitnessesDue()) return;
  for (const auto& weak : tapes_) {
    if (const auto tape = weak.lock()) ebbtide::TakeDueWitnesses(tape.get());
  }
}

template <typename Visit>  // void Visit(Tape*, int storage)
void Residency::ForEachTapeOf(const c10::Storage& storage, Visit visit) {
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr) continue;
    const int index = tape->Find(storage);
    if (index >= 0) visit(tape.get(), index);
  }
}

bool Residency::BeforeForeignWrite(const c10::Storage& storage,
                                   const Tape* writer) {
  bool is_on_tape = false;
  ForEachTapeOf(storage, [&](Tape* tape, int index) {
    if (tape == writer) return;
    is_on_tape = true;
    BeforeWrite(tape, index);
    tape->storages[index].rewritten = true;
  });
  return is_on_tape;
}

void Residency::MarkRewritten(const c10::Storage& storage) {
  ForEachTapeOf(storage, [](Tape* tape, int index) {
    tape->storages[index].rewritten = true;
  });
}

void Residency::NoteWriter(const c10::Storage& storage,
                           const TapeStorage::Writer& writer) {
  ForEachTapeOf(storage, [&](Tape* tape, int index) {
    auto& written = tape->storages[index].written;
    std::erase_if(written, [&](const auto& earlier) {
      return earlier.variable == writer.variable;
    });
    written.push_back(writer);
  });
}

void Residency::AfterForkInParent() {
  if (tier_ != nullptr) tier_->AfterForkInParent();
}

void Residency::AfterForkInChild() {
  if (tier_ != nullptr) tier_->AfterForkInChild();
}

int64_t Residency::CountSavedTensors() const {
  int64_t count = 0;
  for (const auto& weak : tapes_) {
    if (const auto tape = weak.lock()) count += tape->hooks;
  }
  return count;
}

bool Residency::IsOwing() const {
  return std::any_of(tapes_.begin(), tapes_.end(), [](const auto& weak) {
    const auto tape = weak.lock();
    return tape != nullptr && tape->owed > 0;
  });
}

bool Residency::CloseEyes() {
  if (IsOwing()) return false;
  for (const auto& weak : tapes_) {
    if (const auto tape = weak.lock()) tape->blind = true;
  }
  return true;
}

}  // namespace ebbtide
