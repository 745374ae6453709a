// The CPU as a device (hooks/device.h): tensors lie in our own arena, one
// budget bounds what lives there, and nothing is asynchronous.
#ifndef EBBTIDE_HOOKS_CPU_DEVICE_H_
#define EBBTIDE_HOOKS_CPU_DEVICE_H_

#include <memory>

#include "allocator/host_allocator.h"
#include "hooks/device.h"

namespace ebbtide {

class CpuDevice final : public Device {
 public:
  // Lives for ever.
  static CpuDevice& Global();

  Facts FactsOf(int index) const override;
  int CurrentIndex() const override { return 0; }
  Room RoomOf(int index) const override;
  void SetBudget(int index, Bytes budget) override;
  absl::Status Install(const Settings& settings,
                       const Callbacks& callbacks) override;
  void StopBounding() override { HostAllocator::Global().SetBudget(kNoBudget); }
  Bytes StepPeak(int index) const override { return ledger(index).Peak(); }
  Bytes RunPeak(int index) const override { return ledger(index).RunPeak(); }
  void ResetPeak(int index) override { ledger(index).ResetPeak(); }
  Bytes SizeOnDevice(size_t bytes) const override;

  c10::Storage Allocate(size_t bytes, int index) override;
  bool IsReclaimable(const c10::Storage& storage) const override;

  // All frees are seen.
  void SeeFree(const c10::Storage& /*storage*/) override {}

  c10::Storage OnHost(const c10::Storage& bytes) override { return bytes; }
  c10::Storage CopyOf(const c10::Storage& bytes) override;

  at::Generator DefaultGenerator(int index) override;
  void SetState(const at::Tensor& state, at::Generator* generator) override;

  c10::Stream CurrentStream(int index) override;
  void Order(const c10::Stream& before, const c10::Stream& after) override;
  void KeepFor(const c10::Storage& storage, const c10::Stream& stream) override;
  std::shared_ptr<const TimeMark> MarkTime(int /*index*/) override {
    return nullptr;
  }
  std::optional<double> NanosecondsBetween(const TimeMark& /*begin*/,
                                           const TimeMark& /*end*/,
                                           bool /*wait*/) override {
    return std::nullopt;
  }
  absl::StatusOr<std::optional<HostTimes>> HostTimesBetween(
      int /*index*/, const std::shared_ptr<const TimeMark>& /*begin*/,
      const std::shared_ptr<const TimeMark>& /*end*/) override {
    return absl::FailedPreconditionError("nothing is queued on a CPU");
  }

  absl::StatusOr<std::unique_ptr<HostTier>> OpenTier(
      const Settings& settings) override;

  void BeforeFork() override { HostAllocator::Global().BeforeFork(); }
  void AfterFork() override { HostAllocator::Global().AfterFork(); }

 private:
  CpuDevice();
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_CPU_DEVICE_H_
