// Storage for the bytes of saved tensors: evicts, restores and recomputes them.
// Everything under the runtime's lock.
#ifndef EBBTIDE_HOOKS_RESIDENCY_H_
#define EBBTIDE_HOOKS_RESIDENCY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hooks/device.h"
#include "hooks/eviction.h"
#include "hooks/host_tier.h"
#include "hooks/tape.h"
#include "profiler/trace.h"

namespace ebbtide {

// Totals of the work done.
struct ResidencyCounts {
  int64_t drops = 0;
  int64_t bytes_dropped = 0;
  int64_t ops_replayed = 0;
  int64_t verified = 0;  // recomputed storages compared by digest
  int64_t spills = 0;
  int64_t bytes_spilled = 0;
  int64_t bytes_restored = 0;
};

class Residency {
 public:
  // Sets where evicted bytes may go. Without a tier nothing is offloaded.
  void SetTier(std::unique_ptr<HostTier> tier);
  // A trace has been opened.
  void LogCopies() const;
  // Turns the tier's measuring of its copies on or off.
  void MeasureCopies(bool is_on) const {
    if (tier_ != nullptr) tier_->MeasureCopies(is_on);
  }
  // For a child of fork: its threads are not there to be ended.
  void LeaveTier() { static_cast<void>(tier_.release()); }

  // A tape whose storages may be evicted as long as it lives.
  void Add(const std::shared_ptr<Tape>& tape);
  // No op is under way on this thread any more (hooks/outside.h).
  void TakeDueWitnesses();
  // Where on its tape's clock the open pair is; see OfferVictims.
  void SetPosition(const Tape* tape, double position);

  // The bytes of a storage, from wherever they are. `tape` must have a user for
  // them. Starts bringing back what is needed next.
  c10::Storage Fetch(Tape* tape, int storage);

  // Drops or offloads at least one storage; false if nothing can be evicted.
  bool Relieve(const Pressure& pressure);
  // The pair of `tape` has come to that instant of its plan. Waits for copies
  // that were to have ended by now, where more than `room` bytes of them have
  // not.
  void Arrive(Tape* tape, int instant, Bytes room);
  // Frees what finished copies have made free and no plan keeps.
  void Reap() { FreeWritten(/*is_short=*/false); }

  // Explicit decisions of a plan. Drop needs a recipe (false without one);
  // Spill starts a copy and frees the bytes when it has ended; Prefetch starts
  // the copy back. They do nothing if the storage is not evictable or not
  // offloaded. The bytes of a copy made before the tape's planned instant is
  // `until` stay until then, unless memory is short: so the peak is the plan's,
  // whatever the speed of the disk.
  bool Drop(Tape* tape, int storage);
  void Spill(const std::shared_ptr<Tape>& tape, int storage, int until = 0);
  // Opens a scope for consecutive offloads.
  HostTier::Burst BeginBurst() const { return HostTier::Burst(tier_.get()); }
  void Prefetch(Tape* tape, int storage);
  // `hold` returns true for the recomputed storages besides `storage` that
  // stay.
  void Rebuild(Tape* tape, int storage, std::function<bool(int)> hold);
  // From now on: whether what is dropped is compared, by a digest, with what
  // its recipe gives.
  void VerifyRebuilds(bool verify) { verify_ = verify; }
  // Sets the function that prints a line to the user; called under the
  // runtime's lock.
  void SetSpeaker(std::function<void(const std::string&)> speaker) {
    say_ = std::move(speaker);
  }
  // Sets the function called for a recomputed storage that differs.
  void SetMismatchHandler(std::function<void(Tape*, int)> handler) {
    on_mismatch_ = std::move(handler);
  }
  // Storage `written` is about to be written: recomputes the storages that
  // would lose their recipe.
  void BeforeWrite(Tape* tape, int written);
  // Calls BeforeWrite for all tapes but `writer`, the one that records the
  // write, if any. True if the storage is on one of them.
  bool BeforeForeignWrite(const c10::Storage& storage, const Tape* writer);
  // The program frees a block: recomputes storages whose recipes read it, while
  // its bytes are there. `is_backward`: a block freed in a backward pass
  // existed for all of it, so its storage need not be watched.
  void BeforeFree(void* block, bool is_backward);
  // The storage was written where nothing can be recomputed: storages whose
  // recipes need it are lost.
  void MarkRewritten(const c10::Storage& storage);
  // Records the writer that autograd names after an in-place op, for the error
  // messages of all tapes.
  void NoteWriter(const c10::Storage& storage,
                  const TapeStorage::Writer& writer);
  // True if a recipe is relied upon, so that every write must be seen.
  bool IsOwing() const;
  // Writes will go unseen: none of today's tapes relies on a recipe any more.
  // False, and nothing done, where one does already.
  bool CloseEyes();

  // Number of saved tensors of all tapes that will ask for their bytes.
  int64_t CountSavedTensors() const;
  // Time spent in here by the threads of the program, in all.
  double own_nanoseconds() const { return own_nanoseconds_; }

  void AfterForkInParent();
  void AfterForkInChild();

  const ResidencyCounts& counts() const { return counts_; }
  bool CanSpill() const { return tier_ != nullptr && spill_failure_.empty(); }
  HostTier* tier() const { return tier_.get(); }
  // Traces the bytes in the tier if they have changed.
  void LogTier();
  // True if the bytes are held here for saved tensors, which may copy, read or
  // release them at any time.
  bool IsBusyWith(const c10::Storage& storage);
  // Visits the storages whose bytes are in the block at that address.
  void VisitBlock(
      const void* address,
      const std::function<void(const Tape& tape, int storage)>& visit) const;
  // Why offloading stopped; empty while it works.
  const std::string& spill_failure() const { return spill_failure_; }

 private:
  class Timed;
  struct Leaving {
    std::weak_ptr<Tape> tape;
    int storage;
    int until;
  };

  template <typename Visit>
  void ForEachTapeOf(const c10::Storage& storage, Visit visit);
  EvictionQuery QueryFor(const Tape& tape, const Pressure& pressure,
                         size_t least) const;
  // The best victim of at least that many bytes; of all sizes if there is none
  // and that may help.
  std::optional<Victim> BestVictim(const Pressure& pressure,
                                   size_t least = LeastManaged());
  bool Evict(const Victim& victim);
  void GiveUpSpilling(const absl::Status& why);
  // The tier has no room for so much now. Said once.
  void NoteFull(Bytes refused);
  void NoteRefusal();  // Reports a refusal of pinned memory, once.
  void PrefetchBefore(Tape* tape, int pack);
  bool FreeWritten(bool is_short);
  // A copy out has ended, or must end now: releases the bytes on the device.
  // True if that has freed them.
  bool Complete(Tape* tape, int storage);
  bool WaitForWrite();
  // Without waiting for anything: until what the allocator looks for is there,
  // or all has gone that can.
  bool RelieveAtOnce(const Pressure& pressure);
  bool CancelPrefetch();
  // Traces the eviction.
  void LogEviction(const Tape& tape, int storage, Eviction::How how) const;

  std::unique_ptr<HostTier> tier_;
  std::string spill_failure_;
  bool full_said_ = false;
  std::vector<std::weak_ptr<Tape>> tapes_;
  // Copies out under way, or ended early, oldest first.
  std::vector<Leaving> leaving_;
  const Tape* positioned_ = nullptr;
  double position_ = 0;
  bool verify_ = false;
  bool may_evict_ = true;   // for what is being allocated
  bool relieving_ = false;  // memory is short; else a plan says what goes
  std::function<void(Tape*, int)> on_mismatch_;
  std::function<void(const std::string&)> say_;
  ResidencyCounts counts_;
  double own_nanoseconds_ = 0;
  int depth_ = 0;  // nesting depth of timed calls
  Bytes logged_tier_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RESIDENCY_H_
