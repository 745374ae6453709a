// The tier below CUDA devices: pinned memory of our own (PinnedSlab), and two
// streams of copies for each device (CudaLanes).
//
// The host hardly ever waits: FinishWrite and FinishRead order streams. Memory
// is reserved and streams are made when the first copy needs them. A child of
// fork has no devices: offloaded bytes cannot be read there.
#ifndef EBBTIDE_HOOKS_CUDA_TIER_H_
#define EBBTIDE_HOOKS_CUDA_TIER_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/cuda_api.h"
#include "allocator/cuda_clock.h"
#include "allocator/cuda_lanes.h"
#include "allocator/pinned_slab.h"
#include "hooks/host_tier.h"
#include "planner/units.h"

namespace ebbtide {

class CudaTier final : public HostTier {
 public:
  // `api` lives for ever. `asked`: the most host memory that may be taken, if
  // anything has been said. `clocks` of the devices, by index.
  CudaTier(const CudaApi* api, std::optional<Bytes> asked,
           std::vector<std::shared_ptr<CudaClock>> clocks)
      : api_(*api), asked_(asked), clocks_(std::move(clocks)) {}

  void SetLog(const TierLog& log) override { log_ = log; }
  // ResourceExhausted where pinned memory is short, which may pass.
  absl::StatusOr<std::shared_ptr<SpillSlot>> StartWrite(
      const c10::Storage& bytes, absl::string_view what,
      const std::optional<c10::Stream>& maker) override;
  absl::Status FinishWrite(SpillSlot* slot) override;
  absl::Status TakeRefusal() override {
    return slab_ == nullptr ? absl::OkStatus() : slab_->TakeRefusal();
  }
  bool IsReusedBehindCopies(int device) const override;
  absl::Status StartRead(SpillSlot* slot) override;
  void CancelRead(SpillSlot* slot) override;
  absl::StatusOr<c10::Storage> FinishRead(SpillSlot* slot) override;

  void AfterForkInParent() override {}
  void AfterForkInChild() override { in_child_ = true; }

  void MeasureCopies(bool is_on) override;
  CopyRates WriteRates() const override { return RatesOf(CopyWay::kOut); }
  CopyRates ReadRates() const override { return RatesOf(CopyWay::kBack); }
  TierRoom room() const override;
  bool Prepare(Bytes bytes) override {
    return slab_ == nullptr || slab_->Prepare(bytes);
  }
  Bytes in_flight() const override { return leaving_; }

 private:
  class Slot;

  void SetBurst(bool is_open) override {
    in_burst_ = is_open;
    burst_maker_.reset();
  }
  absl::StatusOr<CudaLanes*> LanesOf(int device);
  CopyObserver ObserverOf(int device) const;
  CopyRates RatesOf(CopyWay way) const;

  const CudaApi& api_;
  const std::optional<Bytes> asked_;
  const std::vector<std::shared_ptr<CudaClock>> clocks_;
  TierLog log_;
  std::unique_ptr<PinnedSlab> slab_;
  std::vector<std::unique_ptr<CudaLanes>> lanes_;  // by device
  Bytes leaving_{};  // bytes of unfinished copies out
  bool is_measuring_ = true;
  bool in_burst_ = false;
  std::optional<c10::Stream> burst_maker_;  // stream that made its last copy
  bool in_child_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_CUDA_TIER_H_
