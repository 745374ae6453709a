// Events of one device, used again and again: making one costs more than
// recording it.
//
// Thread-safe. Events outlive the streams they were recorded on, and whoever
// holds one keeps the pool alive; the pool destroys them.
#ifndef EBBTIDE_ALLOCATOR_CUDA_EVENTS_H_
#define EBBTIDE_ALLOCATOR_CUDA_EVENTS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/cuda_api.h"

namespace ebbtide {

class CudaEvents;

// One event, given back at the end of its life. Streams that wait for it
// continue to: a wait is for the last recording before it.
class CudaEvent {
 public:
  enum class Use { kOrder, kTiming };

  CudaEvent(CudaEvent&& other) noexcept = default;
  CudaEvent& operator=(CudaEvent&& other) = delete;
  ~CudaEvent();

  cudaEvent_t get() const { return event_; }

  // After all work so far of `stream`, which is of the pool's device.
  absl::Status Record(cudaStream_t stream) const;
  // `stream` goes on only after what was recorded.
  absl::Status OrderBefore(cudaStream_t stream) const;
  // cudaSuccess, cudaErrorNotReady, or the error of the query. Never blocks. An
  // event that was never recorded is ready.
  cudaError_t Query() const;
  // From this event to `later`, both for timing; nullopt: one has not happened
  // yet. Never blocks.
  absl::StatusOr<std::optional<double>> MillisecondsUntil(
      const CudaEvent& later) const;
  // cudaSuccess or the error of the query. Blocks without using the processor.
  cudaError_t Wait() const;
  const CudaApi& api() const;

 private:
  friend class CudaEvents;
  CudaEvent(std::shared_ptr<CudaEvents> pool, Use use, cudaEvent_t event)
      : pool_(std::move(pool)), use_(use), event_(event) {}

  std::shared_ptr<CudaEvents> pool_;  // null: moved from
  Use use_;
  cudaEvent_t event_;
};

class CudaEvents : public std::enable_shared_from_this<CudaEvents> {
 public:
  static std::shared_ptr<CudaEvents> Create(const CudaApi* api, int device);
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // With the pool's device current.
  absl::StatusOr<CudaEvent> Take(CudaEvent::Use use);

  const CudaApi& api() const { return api_; }
  int device() const { return device_; }

 private:
  friend class CudaEvent;
  // `made` is how many there are, so that giving one back needs no memory.
  struct Shelf {
    std::vector<cudaEvent_t> free;
    size_t made = 0;
  };

  CudaEvents(const CudaApi* api, int device);
  Shelf& ShelfOf(CudaEvent::Use use) {
    return shelves_[static_cast<size_t>(use)];
  }
  void Give(CudaEvent::Use use, cudaEvent_t event);

  const CudaApi& api_;
  const int device_;
  const pid_t process_;
  std::mutex mutex_;
  std::array<Shelf, 2> shelves_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_EVENTS_H_
