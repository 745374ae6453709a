// Where the bytes of saved tensors are, and how they move: evicting, restoring,
// rebuilding. Everything under the runtime's lock.
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

// What was done, in all.
struct ResidencyCounts {
  int64_t drops = 0;
  int64_t bytes_dropped = 0;
  int64_t ops_replayed = 0;
  int64_t verified = 0;  // rebuilt storages compared by digest
  int64_t spills = 0;
  int64_t bytes_spilled = 0;
  int64_t bytes_restored = 0;
};

class Residency {
 public:
  // Where evicted bytes may go. Without one nothing is spilled.
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

  // Drops or spills at least one storage; false where nothing can go.
  bool Relieve(const Pressure& pressure);
  // The pair of `tape` has come to that instant of its plan. Waits for copies
  // that were to have ended by now, where more than `room` bytes of them have
  // not.
  void Arrive(Tape* tape, int instant, Bytes room);
  // Frees what finished copies have made free and no plan keeps.
  void Reap() { FreeWritten(/*is_short=*/false); }

  // Explicit decisions, those of a plan. Drop needs a recipe (false without
  // one); Spill starts a copy, the bytes go when it has ended; Prefetch starts
  // the way back. They do nothing where the storage is not evictable or not
  // spilled. Bytes that are copied before the tape's planned instant is `until`
  // wait for it, unless memory is short: so the peak is the plan's, whatever
  // the speed of the disk.
  bool Drop(Tape* tape, int storage);
  void Spill(const std::shared_ptr<Tape>& tape, int storage, int until = 0);
  // Opens a scope for spills that follow each other.
  HostTier::Burst BeginBurst() const { return HostTier::Burst(tier_.get()); }
  void Prefetch(Tape* tape, int storage);
  // `hold` says which rebuilt storages besides `storage` stay.
  void Rebuild(Tape* tape, int storage, std::function<bool(int)> hold);
  // From now on: whether what is dropped is compared, by a digest, with what
  // its recipe gives.
  void VerifyRebuilds(bool verify) { verify_ = verify; }
  // Tells of a rebuilt storage that differs.
  // What is to be told to the user, as one line; under the runtime's lock.
  void SetSpeaker(std::function<void(const std::string&)> speaker) {
    say_ = std::move(speaker);
  }
  void SetMismatchHandler(std::function<void(Tape*, int)> handler) {
    on_mismatch_ = std::move(handler);
  }
  // Storage `written` is about to be written: rebuilds what would lose its
  // recipe.
  void BeforeWrite(Tape* tape, int written);
  // The same for all tapes but `writer`, the one that records the write, if
  // any.
  void BeforeForeignWrite(const c10::Storage& storage, const Tape* writer);
  // A guarded block is about to be freed, and is not what its storage has any
  // more.
  // What is freed in a backward pass was there for all of it.
  void BeforeFree(void* block, bool is_backward);
  // The same where nothing can be rebuilt: what needs it is lost.
  void MarkRewritten(const c10::Storage& storage);
  // An in-place op that autograd knows of has been, for the error messages of
  // all tapes.
  void NoteWriter(const c10::Storage& storage,
                  const TapeStorage::Writer& writer);
  // Whether a recipe is relied upon, so that every write must be seen.
  bool IsOwing() const;
  // Writes will go unseen: none of today's tapes relies on a recipe any more.
  // False, and nothing done, where one does already.
  bool CloseEyes();

  // Of all tapes: saved tensors that will ask for their bytes.
  int64_t CountSavedTensors() const;
  // Time spent in here by the threads of the program, in all.
  double own_nanoseconds() const { return own_nanoseconds_; }

  void AfterForkInParent();
  void AfterForkInChild();

  const ResidencyCounts& counts() const { return counts_; }
  bool CanSpill() const { return tier_ != nullptr && spill_failure_.empty(); }
  HostTier* tier() const { return tier_.get(); }
  // Tells the trace what lies in the tier, where that has changed.
  void LogTier();
  // Whether the bytes are held here for saved tensors, which may copy them,
  // read them or let them go at any time.
  bool IsBusyWith(const c10::Storage& storage);
  // Visits the storages whose bytes are in the block at that address.
  void VisitBlock(
      const void* address,
      const std::function<void(const Tape& tape, int storage)>& visit) const;
  // Why spilling stopped; empty while it works.
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
  // Of those with at least so many bytes; of all where there is none of them
  // and it may help.
  std::optional<Victim> BestVictim(const Pressure& pressure,
                                   size_t least = LeastManaged());
  bool Evict(const Victim& victim);
  void GiveUpSpilling(const absl::Status& why);
  // The tier has no room for so much now. Said once.
  void NoteFull(Bytes refused);
  void NoteRefusal();  // of pinned memory. Said once.
  void PrefetchBefore(Tape* tape, int pack);
  bool FreeWritten(bool is_short);
  // A copy out has ended, or is to have: lets go of the bytes on the device.
  // True if that has freed them.
  bool Complete(Tape* tape, int storage);
  bool WaitForWrite();
  // Without waiting for anything: until what the allocator looks for is there,
  // or all has gone that can.
  bool RelieveAtOnce(const Pressure& pressure);
  bool CancelPrefetch();
  // Tells the trace.
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
  int depth_ = 0;  // of calls that are being timed
  Bytes logged_tier_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RESIDENCY_H_
