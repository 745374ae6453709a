// The tier below the device: moves storages to the spill file and back.
//
// Copies run on two lanes, their bytes on the device count until a copy out has
// ended and from when a copy back begins. Used under the runtime's lock; only
// the copies themselves run elsewhere, and they own nothing.
//
// A child of fork has no lanes. It reads what was in the file at the fork, at
// once and for itself; the parent writes nothing else there any more.
#ifndef EBBTIDE_HOOKS_HOST_TIER_H_
#define EBBTIDE_HOOKS_HOST_TIER_H_

#include <c10/core/Storage.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/spill_file.h"
#include "allocator/transfer_lane.h"
#include "planner/units.h"

namespace ebbtide {

// Where one storage's bytes lie in the spill file. While a copy runs the slot
// keeps it from outliving its memory: destruction withdraws or waits.
class SpillSlot {
 public:
  // `size` bytes are copied, of which a storage has the first `used`. `forks`:
  // how often the process has forked, counted there.
  SpillSlot(SpillFile* file, Extent extent, Bytes size, size_t used,
            absl::string_view what, const int* forks)
      : file_(file),
        extent_(extent),
        size_(size),
        used_(used),
        what_(what),
        forks_(forks),
        forks_before_(*forks) {}
  ~SpillSlot();
  SpillSlot(const SpillSlot&) = delete;
  SpillSlot& operator=(const SpillSlot&) = delete;

  bool IsWritten() const { return Ended(write_); }
  bool IsReading() const { return read_ != nullptr; }

 private:
  friend class HostTier;
  static bool Ended(const std::shared_ptr<Transfer>& transfer);

  SpillFile* const file_;
  const Extent extent_;
  const Bytes size_;
  const size_t used_;
  const absl::string_view what_;
  const int* const forks_;
  const int forks_before_;
  std::shared_ptr<Transfer> write_;
  std::shared_ptr<Transfer> read_;
  c10::Storage incoming_;
};

class HostTier {
 public:
  // Errors as SpillFile::Open.
  static absl::StatusOr<std::unique_ptr<HostTier>> Open(
      const std::string& directory, Bytes limit);

  // Starts copying `bytes` out; they must stay as they are, and alive, as long
  // as the slot lives or until the copy has ended. `what` names them in the
  // trace, both ways, and lives for ever.
  absl::StatusOr<std::shared_ptr<SpillSlot>> StartWrite(
      const c10::Storage& bytes, absl::string_view what);
  // Blocks until the bytes are in the file.
  absl::Status FinishWrite(SpillSlot* slot);

  // Starts copying back, into memory taken now.
  absl::Status StartRead(SpillSlot* slot);
  // Gives up a copy back that nobody waits for; its memory is free again.
  static void CancelRead(SpillSlot* slot);
  // Blocks until the bytes are back (starting the copy if need be) and hands
  // them over; the file's copy stays good.
  absl::StatusOr<c10::Storage> FinishRead(SpillSlot* slot);

  // After a fork, in the parent and in the child.
  void AfterForkInParent() { ++forks_; }
  void AfterForkInChild() { in_child_ = true; }

  // Nanoseconds per byte out and back, as measured lately.
  double CostPerByte() const;
  double WriteBandwidth() const;  // bytes per second, contended
  double ReadBandwidth() const;
  Bytes bytes_written() const { return bytes_written_; }
  Bytes used() const { return file_->used(); }
  Bytes in_flight() const { return out_.in_flight() + back_.in_flight(); }

 private:
  explicit HostTier(std::unique_ptr<SpillFile> file);
  absl::StatusOr<c10::Storage> ReadInChild(const SpillSlot& slot);

  const std::unique_ptr<SpillFile> file_;
  TransferLane out_;
  TransferLane back_;
  Bytes bytes_written_{};
  int forks_ = 0;
  bool in_child_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_HOST_TIER_H_
