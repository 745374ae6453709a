// CUDA devices (hooks/device.h): tensors lie where PyTorch's own caching
// allocator puts them, whose reserved bytes are held to a budget per device
// (allocator/torch_cuda_allocator.h); pinned memory is the tier below.
//
// Nothing here makes a context: what needs one runs when the program has made
// tensors.
#ifndef EBBTIDE_HOOKS_CUDA_DEVICE_H_
#define EBBTIDE_HOOKS_CUDA_DEVICE_H_

#include <memory>
#include <optional>
#include <vector>

#include "allocator/cuda_api.h"
#include "allocator/cuda_clock.h"
#include "allocator/cuda_events.h"
#include "allocator/host_allocator.h"
#include "hooks/device.h"

namespace ebbtide {

class DeviceArena;

class CudaDevice final : public Device {
 public:
  // CudaAllocator has to be in place.
  CudaDevice(const CudaApi* api, int devices);

  // For CudaAllocator::Policy; false before Install.
  static bool Relieve(c10::DeviceIndex device, Bytes needed, bool is_locked);

  Facts FactsOf(int index) const override;
  int CurrentIndex() const override;
  Room RoomOf(int index) const override;
  void SetBudget(int index, Bytes budget) override;
  absl::Status Install(const Settings& settings,
                       const Callbacks& callbacks) override;
  bool BeginStep(int index, int64_t plan) override;
  void EndPlan(int index) override;
  Bytes StepPeak(int index) const override;
  Bytes RunPeak(int index) const override;
  void ResetPeak(int index) override;
  bool FindsRoom(int index, Bytes wanted) const override;
  Bytes SizeOnDevice(size_t bytes) const override;

  c10::Storage Allocate(size_t bytes, int index) override;
  std::optional<Bytes> WasteBeside(int index) const override;
  std::optional<Bytes> ReservedAsPlanned(int index) const override;
  bool IsReclaimable(const c10::Storage& storage) const override;
  void SeeFree(const c10::Storage& storage) override;

  c10::Storage OnHost(const c10::Storage& bytes) override;
  c10::Storage CopyOf(const c10::Storage& bytes) override;

  at::Generator DefaultGenerator(int index) override;
  void SetState(const at::Tensor& state, at::Generator* generator) override;

  c10::Stream CurrentStream(int index) override;
  void Order(const c10::Stream& before, const c10::Stream& after) override;
  void KeepFor(const c10::Storage& storage, const c10::Stream& stream) override;
  std::shared_ptr<const TimeMark> MarkTime(int index) override;
  std::optional<double> NanosecondsBetween(const TimeMark& begin,
                                           const TimeMark& end,
                                           bool wait) override;
  absl::StatusOr<std::optional<HostTimes>> HostTimesBetween(
      int index, const std::shared_ptr<const TimeMark>& begin,
      const std::shared_ptr<const TimeMark>& end) override;
  bool AwaitAll() override;
  Profiler profiler() const override;
  bool MayBeCapturing() const override;
  bool IsCapturing() override;

  absl::StatusOr<std::unique_ptr<HostTier>> OpenTier(
      const Settings& settings) override;

  void BeginExit() override;

  // The native allocator's locks are its own, and a child has no device. But
  // RAM may still be our allocator's.
  void BeforeFork() override { HostAllocator::Global().BeforeFork(); }
  void AfterFork() override { HostAllocator::Global().AfterFork(); }

 private:
  // The program has made tensors there: contexts exist.
  static bool IsUsed();
  // nullptr where the device is not used yet, or has no arena.
  static DeviceArena* ArenaOf(int index);
  void Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
            const c10::Stream& stream);

  const CudaApi& api_;
  std::vector<std::shared_ptr<CudaEvents>> events_;  // by index
  std::vector<std::shared_ptr<CudaClock>> clocks_;   // by index
  std::vector<Bytes> run_peaks_;  // by index; of the steps that are over
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_CUDA_DEVICE_H_
