// Models of allocators' policies on a simulated driver, which only counts what
// it is asked for: how much memory each would have reserved, and at which
// calls.
#ifndef EBBTIDE_ALLOCATOR_REPLAY_POLICY_H_
#define EBBTIDE_ALLOCATOR_REPLAY_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "allocator/holes.h"
#include "planner/units.h"

namespace ebbtide {

// The device has all the memory that is asked for, so nothing is ever given
// back and nothing fails. Addresses are the simulated driver's.
class ReplayPolicy {
 public:
  virtual ~ReplayPolicy() = default;
  // `size` is at least 1.
  virtual int64_t Allocate(int64_t size, int stream) = 0;
  // Frees an address that Allocate returned and that is in use.
  void Free(int64_t address);

  int64_t reserved() const { return reserved_; }
  // Calls into the driver that reserve, map or allocate memory.
  int64_t driver_calls() const { return driver_calls_; }

 protected:
  // A segment of its own, which touches no other.
  int64_t Segment(int64_t size) {
    constexpr int64_t kApart = int64_t{1} << 21;
    const int64_t address = next_;
    next_ += (size + 2 * kApart - 1) / kApart * kApart;
    Reserve(size);
    return address;
  }
  void Reserve(int64_t size) {
    reserved_ += size;
    ++driver_calls_;
  }
  // Takes the front of a hole. It goes `to` these when it is freed, as does the
  // rest at once.
  int64_t Take(Holes* from, const Hole& hole, int64_t size, Holes* to) {
    from->TakeFront(hole, hole.size);
    to->Add({hole.begin + size, hole.size - size});
    taken_[hole.begin] = {to, size};
    return hole.begin;
  }

 private:
  std::map<int64_t, std::pair<Holes*, int64_t>> taken_;  // with their sizes
  int64_t next_ = 0;
  int64_t reserved_ = 0;
  int64_t driver_calls_ = 0;
};

// c10/cuda/CUDACachingAllocator of PyTorch 2.11 with its default settings:
// sizes in multiples of 512 bytes, a pool for up to 1 MiB and one for more,
// segments of 2 MiB, 20 MiB or the request's own size, best fit within a
// stream, split where the rest is worth it. With expandable_segments:True:
// per stream and pool one range of addresses, mapped from below in pages of 2
// or 20 MiB.
std::unique_ptr<ReplayPolicy> MakeTorchPools(bool expandable);
// RMM's pool_memory_resource without an initial size or a maximum: best fit in
// the stream's list, then in another's, then in all merged, then an upstream
// allocation as large as all before it together or as the request.
std::unique_ptr<ReplayPolicy> MakeRmmPool();

// By the names of `ebbtide replay`: native and expandable, rmm-pool, and
// firstfit and bestfit, which take the lowest or the smallest hole of one arena
// that grows at its end. nullptr for any other.
std::unique_ptr<ReplayPolicy> MakeReplayPolicy(absl::string_view name);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_REPLAY_POLICY_H_
