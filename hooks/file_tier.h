// The tier below RAM: an offload file, and a thread for each direction.
//
// A child of fork has no threads. It reads what was in the file at the fork, at
// once and for itself; the parent writes nothing else there any more.
#ifndef EBBTIDE_HOOKS_FILE_TIER_H_
#define EBBTIDE_HOOKS_FILE_TIER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/spill_file.h"
#include "allocator/transfer_lane.h"
#include "hooks/host_tier.h"
#include "planner/units.h"

namespace ebbtide {

class FileTier final : public HostTier {
 public:
  // Returns the errors of SpillFile::Open.
  static absl::StatusOr<std::unique_ptr<FileTier>> Open(
      const std::string& directory, Bytes limit);

  absl::StatusOr<std::shared_ptr<SpillSlot>> StartWrite(
      const c10::Storage& bytes, absl::string_view what,
      const std::optional<c10::Stream>& maker) override;
  absl::Status FinishWrite(SpillSlot* slot) override;
  absl::Status StartRead(SpillSlot* slot) override;
  void CancelRead(SpillSlot* slot) override;
  absl::StatusOr<c10::Storage> FinishRead(SpillSlot* slot) override;

  void AfterForkInParent() override { ++forks_; }
  void AfterForkInChild() override { in_child_ = true; }

  CopyRates WriteRates() const override;
  CopyRates ReadRates() const override;
  TierRoom room() const override {
    return {file_->limit(), file_->used(), file_->Largest()};
  }
  Bytes in_flight() const override {
    return out_.in_flight() + back_.in_flight();
  }

 private:
  class Slot;

  explicit FileTier(std::unique_ptr<SpillFile> file);
  absl::StatusOr<c10::Storage> ReadInChild(const Slot& slot);

  const std::unique_ptr<SpillFile> file_;
  TransferLane out_;
  TransferLane back_;
  int forks_ = 0;
  bool in_child_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_FILE_TIER_H_
