// One copy between a device and the slab, from when it was given to its stream.
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_CUDA_COPY_H_
#define EBBTIDE_ALLOCATOR_CUDA_COPY_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "allocator/cuda_events.h"
#include "allocator/extents.h"
#include "planner/units.h"

namespace ebbtide {

class CudaCopy {
 public:
  // kFailed: the driver reports an error where it should say whether the copy
  // has ended. The content of the destination is then unspecified and may still
  // change; the source is as it was.
  enum class State { kPending, kDone, kFailed };

  // `done` is to be recorded behind the copy.
  CudaCopy(CudaEvent done, Extent extent, Bytes size)
      : done_(std::move(done)), extent_(extent), size_(size) {}

  // Asks the driver; never blocks. Once not pending, it stays what it is.
  State state() const;
  // A later copy of the same stream has ended well, and so has this one.
  void NoteDone() const { Settle(cudaSuccess); }
  // Without asking: it is known by now.
  bool was_seen_done() const { return result_ == cudaSuccess; }
  // Blocks until it is not pending. Unavailable if it has failed.
  absl::Status Wait() const;
  // OK unless it was seen to have failed.
  absl::Status Failure() const;

  const CudaEvent& done() const { return done_; }
  Extent extent() const { return extent_; }  // extent of the slab

 private:
  void Settle(cudaError_t result) const;

  const CudaEvent done_;
  const Extent extent_;
  const Bytes size_;
  mutable std::atomic<cudaError_t> result_ = cudaErrorNotReady;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_COPY_H_
