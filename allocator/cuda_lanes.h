// Copies between one device and the slab, on two streams of our own: one out to
// the host, one back. Everything is put in order by events on the device; the
// host waits only where it says so.
//
// Copies are split into parts, and the parts of one lane run in the order in
// which they were given to it. A copy is ordered behind the copies of the other
// lane that touch the same bytes of the slab. Where memory of the slab is not
// pinned, the calling thread waits for the copy and for the work before it.
//
// Thread-safe, except that calls which name the same extent are for the caller
// to put in order. No lock is held while CUDA is called. Call it with the
// device current where that can be had (see CudaScope). Streams that the
// program gives are of this device; 0 is its default stream. They must not be
// under capture. A child of fork has no device: there, what can fail fails, and
// what cannot does nothing; copies that had not been seen to end must not be
// asked.
#ifndef EBBTIDE_ALLOCATOR_CUDA_LANES_H_
#define EBBTIDE_ALLOCATOR_CUDA_LANES_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/cuda_api.h"
#include "allocator/cuda_copy.h"
#include "allocator/cuda_events.h"
#include "allocator/cuda_meter.h"
#include "allocator/extents.h"
#include "allocator/pinned_slab.h"
#include "planner/units.h"

namespace ebbtide {

class CudaLanes {
 public:
  // Copies are split into parts of at most this. A copy engine takes what waits
  // for it in turns, whatever the priority of its stream, so the program's own
  // copy (its next batch) waits for one part: at 25 GB/s, PCIe 4.0, for 0.7 ms.
  static constexpr Bytes kPart{16 << 20};

  // Starts two streams. `slab` and `api` must live longer. `observer` sees the
  // copies that succeed. Errors: as CudaStatus.
  static absl::StatusOr<std::unique_ptr<CudaLanes>> Open(
      const CudaApi* api, PinnedSlab* slab, int device,
      CopyObserver observer = {});
  // Waits for all copies.
  ~CudaLanes();
  CudaLanes(const CudaLanes&) = delete;
  CudaLanes& operator=(const CudaLanes&) = delete;

  // Memory of the slab, what ended copies have kept back first. Errors as
  // PinnedSlab::Take; there may be room again once copies have ended: see
  // kept_back().
  absl::StatusOr<Extent> Take(Bytes size);
  // Gives it back, at any time: it is not reused while a copy touches it.
  void Give(Extent extent);

  // Copies `size` bytes (positive, at most the extent's), after all work so far
  // of `producer`. They must stay as they are, and allocated, until the copy
  // has ended or a stream ordered after it does what changes them. An error: no
  // copy, and unless the device itself is broken nothing of it is or will be
  // under way; the host may have waited for that. The source is untouched, the
  // content of `to` is unspecified. InvalidArgument if the size is wrong, else
  // as CudaStatus. `label` is for the observer. `is_next`: nothing was queued
  // on `producer` since the last copy out of its bytes, which was given to the
  // lane before this one.
  absl::StatusOr<std::shared_ptr<CudaCopy>> Out(const void* device, Extent to,
                                                Bytes size,
                                                cudaStream_t producer,
                                                CopyLabel label = {},
                                                bool is_next = false);
  // The same the other way, after all work so far of `consumer`, so that what
  // used the destination before is done with it. It must not be touched nor
  // freed until the copy has ended, except on streams ordered after it.
  absl::StatusOr<std::shared_ptr<CudaCopy>> Back(Extent from, void* device,
                                                 Bytes size,
                                                 cudaStream_t consumer,
                                                 CopyLabel label = {});

  // Work queued on `stream` from now on runs after the copy. The host does not
  // wait. Errors: the copy has failed (Unavailable; the stream is ordered after
  // it none the less), or as CudaStatus and nothing is ordered.
  absl::Status OrderAfter(cudaStream_t stream, const CudaCopy& copy);
  // The host waits for the copy. Unavailable if it has failed.
  absl::Status Wait(const CudaCopy& copy);
  // The host waits for all copies given so far; those that fail are no error.
  void WaitForAll();

  // Looks which copies have ended, without blocking. Out and Back do it once in
  // kPollAt copies at least, Take where any extent is kept back.
  void Poll();
  static constexpr int kPollAt = 32;

  // Bytes given back, but touched by copies that were not seen to have ended.
  // Extents of failed copies stay here: they may still be written.
  Bytes kept_back() const;

  // Bytes per second as measured by the device, without and with copies the
  // other way at the same time; 0 until there was one.
  double Bandwidth(CopyWay way) const { return meter_.Bandwidth(way); }
  // Measures with the copies that start from now on, or with none of them,
  // which saves three calls for each. On at first.
  void MeasureCopies(bool is_on) { meter_.SetOn(is_on); }
  double ContendedBandwidth(CopyWay way) const {
    return meter_.ContendedBandwidth(way);
  }

 private:
  using Copies = std::list<std::shared_ptr<CudaCopy>>;
  struct Lane {
    cudaStream_t stream = nullptr;
    Copies pending;  // in the order in which they were given to the stream
  };
  struct Request;

  CudaLanes(const CudaApi* api, PinnedSlab* slab, int device,
            CopyObserver observer);
  Lane& LaneOf(CopyWay way) { return lanes_[static_cast<size_t>(way)]; }
  const Lane& LaneOf(CopyWay way) const {
    return lanes_[static_cast<size_t>(way)];
  }
  bool InChild() const;
  absl::Status Check(const Request& request) const;
  absl::StatusOr<std::shared_ptr<CudaCopy>> Start(const Request& request);
  absl::Status OrderBehind(const Request& request);
  Copies TouchingOnOther(const Request& request) const;
  absl::Status Copy(const Request& request, const CudaEvent& done);
  absl::Status CopyParts(const Request& request);
  bool IsIdle() const;
  bool Retire(Lane* lane);  // true if a copy has ended
  void NoteDone(const Lane& lane) const;
  bool IsTouched(Extent extent) const;
  void ReleaseKept();

  const CudaApi& api_;
  PinnedSlab& slab_;
  const int device_;
  const pid_t process_;
  const std::shared_ptr<CudaEvents> events_;
  CudaMeter meter_;

  mutable std::mutex mutex_;
  std::array<Lane, 2> lanes_;
  Copies failed_;
  std::vector<Extent> kept_;
  std::atomic<int> unpolled_ = 0;  // copies since the last Poll
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_LANES_H_
