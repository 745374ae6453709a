#include "hooks/cuda_tier.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

#include "allocator/allocation_kind.h"
#include "allocator/host_limit.h"
#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_device_arena.h"
#include "hooks/cuda_error.h"
#include "hooks/device.h"
#include "hooks/insist.h"

namespace ebbtide {
namespace {

// Before the first copy was measured: 16 lanes of PCIe 3.
constexpr double kAssumedBandwidth = 12e9;

cudaStream_t Native(const c10::Stream& stream) {
  return c10::cuda::CUDAStream(stream).stream();
}

c10::DeviceGuard Enter(int device) {
  return Insist([device] {
    return c10::DeviceGuard(c10::Device(c10::DeviceType::CUDA,
                                        static_cast<c10::DeviceIndex>(device)));
  });
}

}  // namespace

class CudaTier::Slot final : public SpillSlot {
 public:
  Slot(CudaTier* tier, CudaLanes* lanes, Extent extent, size_t bytes,
       const c10::Stream& maker, CopyLabel label)
      : tier_(*tier),
        lanes_(*lanes),
        extent_(extent),
        bytes_(bytes),
        maker_(maker),
        label_(label) {}

  ~Slot() override {
    if (tier_.in_child_) return;
    if (back_ != nullptr) LetGoOfIncoming();
    // Later writes and frees of the bytes are ordered after the copy out.
    if (leaving_ > Bytes{0} && out_->state() == CudaCopy::State::kPending) {
      OrderOrWait(maker_, *out_);
      OrderOrWait(Device::Get().CurrentStream(device()), *out_);
    }
    NoteGone();
    lanes_.Give(extent_);
  }

  bool IsWritten() const override {
    return tier_.in_child_ || out_->state() != CudaCopy::State::kPending;
  }
  bool WasWritten() const override {
    return tier_.in_child_ || out_->was_seen_done();
  }
  bool IsReading() const override { return back_ != nullptr; }

  int device() const { return maker_.device_index(); }

 private:
  friend class CudaTier;

  // The bytes on the device may be freed.
  void NoteGone() { tier_.leaving_ -= std::exchange(leaving_, Bytes{0}); }

  void OrderOrWait(const c10::Stream& stream, const CudaCopy& copy) {
    const c10::DeviceGuard there = Enter(device());
    if (lanes_.OrderAfter(Native(stream), copy).ok()) return;
    lanes_.Wait(copy).IgnoreError();  // the result is not needed any more
  }

  void LetGoOfIncoming() {
    OrderOrWait(allocated_on_.value(), *back_);
    back_.reset();
    incoming_ = c10::Storage();
  }

  CudaTier& tier_;
  CudaLanes& lanes_;
  const Extent extent_;
  const size_t bytes_;
  const c10::Stream maker_;
  const CopyLabel label_;  // in the trace
  Bytes leaving_{};
  const void* on_device_ = nullptr;  // source of the copy out
  std::shared_ptr<CudaCopy> out_;
  std::shared_ptr<CudaCopy> back_;
  c10::Storage incoming_;
  std::optional<c10::Stream> allocated_on_;  // stream that incoming_ was
                                             // allocated on
};

absl::StatusOr<CudaLanes*> CudaTier::LanesOf(int device) {
  if (slab_ == nullptr) {
    const Bytes limit = PinnedLimit(asked_).bytes;
    auto slab = PinnedSlab::Open(
        &api_,
        {.limit = limit, .device = device, .node = HostNodeOf(api_, device)});
    if (!slab.ok()) return slab.status();
    slab_ = *std::move(slab);
  }
  if (device >= static_cast<int>(lanes_.size())) lanes_.resize(device + 1);
  if (lanes_[device] == nullptr) {
    auto lanes =
        CudaLanes::Open(&api_, slab_.get(), device, ObserverOf(device));
    if (!lanes.ok()) return lanes.status();
    (*lanes)->MeasureCopies(is_measuring_);
    lanes_[device] = *std::move(lanes);
  }
  return lanes_[device].get();
}

CopyObserver CudaTier::ObserverOf(int device) const {
  if (log_.add == nullptr) return {};
  return {.clock = clocks_[device],
          .on_copy = [add = log_.add](const TimedCopy& copy) {
            if (copy.label.name < 0) return;
            add({.kind = copy.way == CopyWay::kOut ? SpanKind::kOffload
                                                   : SpanKind::kRestore,
                 .name = copy.label.name,
                 .begin = copy.begin,
                 .end = copy.end,
                 .bytes = copy.size,
                 .value = copy.label.value});
          }};
}

void CudaTier::MeasureCopies(bool is_on) {
  is_measuring_ = is_on;
  for (const auto& lanes : lanes_) {
    if (lanes != nullptr) lanes->MeasureCopies(is_on);
  }
}

absl::StatusOr<std::shared_ptr<SpillSlot>> CudaTier::StartWrite(
    const c10::Storage& bytes, absl::string_view what,
    const std::optional<c10::Stream>& maker) {
  const c10::DeviceGuard there = Enter(maker->device_index());
  const auto lanes = LanesOf(maker->device_index());
  if (!lanes.ok()) return lanes.status();
  const Bytes size{static_cast<int64_t>(bytes.nbytes())};
  const auto extent = (*lanes)->Take(size);
  if (!extent.ok()) return extent.status();
  CopyLabel label;
  if (log_.about != nullptr) {
    const Span about = log_.about(what, bytes.data());
    label = {.name = about.name, .value = about.value};
  }
  auto slot = std::make_shared<Slot>(this, *lanes, *extent, bytes.nbytes(),
                                     *maker, label);
  auto out = (*lanes)->Out(bytes.data(), *extent, size, Native(*maker), label,
                           /*is_next=*/burst_maker_ == maker);
  burst_maker_.reset();
  if (!out.ok()) return out.status();
  if (in_burst_) burst_maker_ = maker;
  slot->on_device_ = bytes.data();
  slot->out_ = *std::move(out);
  slot->leaving_ = size;
  leaving_ += size;
  return slot;
}

absl::Status CudaTier::FinishWrite(SpillSlot* finished) {
  auto* const slot = static_cast<Slot*>(finished);
  slot->NoteGone();
  const absl::Status failure = slot->out_->Failure();
  if (!failure.ok() || slot->out_->was_seen_done()) return failure;
  const std::shared_ptr<const CudaEvent> end(slot->out_, &slot->out_->done());
  DeviceArena* const arena = CudaAllocator::ArenaOf(slot->on_device_);
  if (arena != nullptr && arena->KeepUntil(slot->on_device_, end)) {
    return absl::OkStatus();
  }
  const c10::DeviceGuard there = Enter(slot->device());
  return slot->lanes_.OrderAfter(Native(slot->maker_), *slot->out_);
}

bool CudaTier::IsReusedBehindCopies(int device) const {
  return CudaAllocator::ArenaOf(static_cast<c10::DeviceIndex>(device)) !=
         nullptr;
}

absl::Status CudaTier::StartRead(SpillSlot* started) {
  if (in_child_) {
    return absl::FailedPreconditionError("a child of fork has no device");
  }
  auto* const slot = static_cast<Slot*>(started);
  const c10::DeviceGuard there = Enter(slot->device());
  const AllocationKind kind(Kind::kSaved);
  slot->incoming_ = Device::Get().Allocate(slot->bytes_, slot->device());
  slot->allocated_on_ = Device::Get().CurrentStream(slot->device());
  auto back = slot->lanes_.Back(slot->extent_, slot->incoming_.mutable_data(),
                                Bytes{static_cast<int64_t>(slot->bytes_)},
                                Native(*slot->allocated_on_), slot->label_);
  if (!back.ok()) {
    slot->incoming_ = c10::Storage();
    return back.status();
  }
  slot->back_ = *std::move(back);
  return absl::OkStatus();
}

void CudaTier::CancelRead(SpillSlot* slot) {
  static_cast<Slot*>(slot)->LetGoOfIncoming();
}

absl::StatusOr<c10::Storage> CudaTier::FinishRead(SpillSlot* finished) {
  auto* const slot = static_cast<Slot*>(finished);
  if (in_child_) return StartRead(slot);  // which is refused
  const c10::DeviceGuard there = Enter(slot->device());
  if (slot->back_ == nullptr) {
    const absl::Status started = StartRead(slot);
    if (!started.ok()) {
      RaiseIfBroken(api_);
      return started;
    }
  }
  const c10::Stream here = Device::Get().CurrentStream(slot->device());
  const absl::Status ordered =
      slot->lanes_.OrderAfter(Native(here), *slot->back_);
  if (!ordered.ok()) {
    slot->LetGoOfIncoming();
    RaiseIfBroken(api_);
    return ordered;
  }
  if (here != *slot->allocated_on_) {
    slot->OrderOrWait(*slot->allocated_on_, *slot->back_);
    Device::Get().KeepFor(slot->incoming_, here);
  }
  slot->back_.reset();
  return std::exchange(slot->incoming_, c10::Storage());
}

// Returns the rates of the first device that has copied.
HostTier::CopyRates CudaTier::RatesOf(CopyWay way) const {
  for (const auto& lanes : lanes_) {
    if (lanes == nullptr) continue;
    lanes->Poll();
    CopyRates rates = {.alone = lanes->Bandwidth(way),
                       .contended = lanes->ContendedBandwidth(way)};
    rates.planned = rates.contended > 0 ? rates.contended : rates.alone;
    if (rates.planned > 0) return rates;
  }
  return {.planned = kAssumedBandwidth};
}

TierRoom CudaTier::room() const {
  // Copies that have ended since: they may have kept room back, and the trace
  // waits for them.
  for (const auto& lanes : lanes_) {
    if (lanes == nullptr) continue;
    if (log_.add != nullptr || lanes->kept_back() > Bytes{0}) lanes->Poll();
  }
  if (slab_ == nullptr) {
    const Bytes limit = PinnedLimit(asked_).bytes;
    return {.limit = limit, .largest = limit};
  }
  return {slab_->limit(), slab_->Stats().used, slab_->Largest()};
}

}  // namespace ebbtide
