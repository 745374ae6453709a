// The tier below the device: moves storages there and back.
//
// Copies run beside everything else, one way each in the order in which they
// were started. Their bytes on the device count until a copy out has ended and
// from when a copy back begins. Used under the runtime's lock.
//
// There are two forms: a file below RAM (hooks/file_tier.h) and pinned memory
// below a CUDA device (hooks/cuda_tier.h).
#ifndef EBBTIDE_HOOKS_HOST_TIER_H_
#define EBBTIDE_HOOKS_HOST_TIER_H_

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/units.h"
#include "profiler/trace.h"

namespace ebbtide {

// Where one storage's bytes lie in the tier. While a copy runs the slot keeps
// it from outliving its memory: destruction withdraws it, or waits.
class SpillSlot {
 public:
  virtual ~SpillSlot() = default;
  SpillSlot(const SpillSlot&) = delete;
  SpillSlot& operator=(const SpillSlot&) = delete;

  // The copy out has ended, well or not.
  virtual bool IsWritten() const = 0;
  // True if an earlier query, by IsWritten or otherwise, has seen the end.
  virtual bool WasWritten() const { return IsWritten(); }
  // A copy back is under way, or has ended and was not asked for yet.
  virtual bool IsReading() const = 0;

 protected:
  SpillSlot() = default;
};

// Callbacks of a tier for copies made by the device, whose times the host
// cannot see.
struct TierLog {
  // A copy of the value at `data`: its name (negative: the copy is not traced)
  // and its block.
  Span (*about)(absl::string_view what, const void* data) = nullptr;
  // It has been made, on any thread.
  void (*add)(const Span& span) = nullptr;
};

struct TierRoom {
  Bytes limit{};
  Bytes used{};
  Bytes largest{};  // that StartWrite has room for
};

class HostTier {
 public:
  virtual ~HostTier() = default;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Called before the first copy; copies made by the host are traced anyway.
  virtual void SetLog(const TierLog& /*log*/) {}

  // Starts copying `bytes` out; they must stay as they are, and alive, as long
  // as the slot lives or until FinishWrite. `what` names them in the trace,
  // both ways, and lives for ever. `maker`: the stream after whose work so far
  // they are what they are to be, on a device that has streams.
  virtual absl::StatusOr<std::shared_ptr<SpillSlot>> StartWrite(
      const c10::Storage& bytes, absl::string_view what,
      const std::optional<c10::Stream>& maker) = 0;
  // `Burst` is a scope in which the caller queues nothing on the device between
  // copies out: one event orders those of a stream behind the work before them.
  class Burst {
   public:
    explicit Burst(HostTier* tier) : tier_(tier) { Set(true); }
    ~Burst() { Set(false); }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    void Set(bool is_open) {
      if (tier_ != nullptr) tier_->SetBurst(is_open);
    }
    HostTier* const tier_;
  };
  // The system's refusal of pinned memory, which makes copies slow. Returns it
  // once, and OK otherwise.
  virtual absl::Status TakeRefusal() { return absl::OkStatus(); }
  // After this the bytes on the device may be freed, and not written: they are
  // in the tier, or their memory is used again behind the copy. Blocks where
  // there is no such order. An error: the copy has failed.
  virtual absl::Status FinishWrite(SpillSlot* slot) = 0;
  // True where what is queued next waits for the copy only if it uses that
  // memory.
  virtual bool IsReusedBehindCopies(int /*device*/) const { return false; }

  // Starts copying back, into memory taken now.
  virtual absl::Status StartRead(SpillSlot* slot) = 0;
  // Cancels a copy back that is not needed; its memory is free again.
  virtual void CancelRead(SpillSlot* slot) = 0;
  // Hands the bytes over (starting the copy if need be): they are back, or will
  // be for what is queued on the current stream from now on. The tier's copy
  // stays good.
  virtual absl::StatusOr<c10::Storage> FinishRead(SpillSlot* slot) = 0;

  // After a fork, in the parent and in the child.
  virtual void AfterForkInParent() = 0;
  virtual void AfterForkInChild() = 0;

  // How fast copies of one way were, in bytes per second; 0: there was none.
  struct CopyRates {
    double alone = 0;      // nothing was copied the other way meanwhile
    double contended = 0;  // something was
    double planned = 0;    // the rate that plans assume
  };
  // Lets further copies change the rates, or none of them where measuring takes
  // time. On at first.
  virtual void MeasureCopies(bool /*is_on*/) {}
  virtual CopyRates WriteRates() const = 0;
  virtual CopyRates ReadRates() const = 0;
  // Rates that plans assume: those of the last copies under the contention that
  // they met (docs/decisions/cpu-memory.md), or a guess before the first copy.
  double WriteBandwidth() const { return WriteRates().planned; }
  double ReadBandwidth() const { return ReadRates().planned; }
  virtual TierRoom room() const = 0;
  // Makes memory for so many bytes ready, beside the job. True once it is, or
  // where it can only be made when it is used.
  virtual bool Prepare(Bytes /*bytes*/) { return true; }
  // Bytes of unfinished copies out: still counted on the device, but about to
  // be freed.
  virtual Bytes in_flight() const = 0;

  // Nanoseconds per byte out and back.
  double CostPerByte() const {
    return 1e9 / WriteBandwidth() + 1e9 / ReadBandwidth();
  }

 protected:
  HostTier() = default;

 private:
  virtual void SetBurst(bool /*is_open*/) {}
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_HOST_TIER_H_
