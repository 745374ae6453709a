// The host tier of CUDA mode: pinned memory of our own, divided into extents of
// exact sizes (PyTorch's pinned allocator rounds up to powers of two, and pins
// while the program waits).
//
// The addresses for all of it are reserved at once; memory is committed and
// registered with the driver in chunks, those ahead of need by a thread. Chunks
// are kept until the end. Memory is not inherited by children of fork: a
// child's copy-on-write would otherwise remove pages from under a running copy.
//
// Thread-safe; no lock is held while the system or the driver works. In a child
// of fork nothing but the destructor may be called.
#ifndef EBBTIDE_ALLOCATOR_PINNED_SLAB_H_
#define EBBTIDE_ALLOCATOR_PINNED_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/cuda_api.h"
#include "allocator/extents.h"
#include "planner/units.h"

namespace ebbtide {

// The seam to the system; tests make it fail.
struct SlabSystem {
  // Addresses without memory, or nullptr. Children of fork will not have them.
  char* (*reserve)(size_t size);
  // Asks for pages of that NUMA node, later, in all that was reserved. A wish.
  void (*prefer_node)(char* address, size_t size, int node);
  // Zeroed pages, all of them resident; false if there is no memory.
  bool (*commit)(char* address, size_t size);
  // The pages go, the addresses stay reserved.
  void (*decommit)(char* address, size_t size);
  void (*release)(char* address, size_t size);
  static const SlabSystem& Real();
};

struct SlabOptions {
  Bytes limit{};   // see PinnedLimit
  int device = 0;  // device whose context registers the memory, for all devices
  std::optional<int> node;  // see HostNodeOf
  // Registered beyond the furthest use so far, ahead of requests.
  Bytes ahead{256 << 20};
  // Memory is registered in pieces of this size (whole pages). A piece is the
  // most that a Take may have to wait for; ever smaller ones cost more calls,
  // and copies end at their borders. Untested on a device so far.
  Bytes chunk{64 << 20};
};

struct SlabStats {
  Bytes pinned{};        // registered
  Bytes pageable{};      // committed, but registration was refused
  Bytes used{};          // in extents
  int64_t refusals = 0;  // refusals of the driver; retried chunks count again
};

class PinnedSlab {
 public:
  // Sizes of extents are multiples of this, and so are their addresses: as
  // those of PyTorch's CUDA blocks, so nothing is lost.
  static constexpr int64_t kGrain = 512;

  // `api` must live as long. InvalidArgument if the limit is less than a page,
  // ResourceExhausted if the address space has no room.
  static absl::StatusOr<std::unique_ptr<PinnedSlab>> Open(
      const CudaApi* api, const SlabOptions& options,
      const SlabSystem& system = SlabSystem::Real());
  // No copy may be running. A piece that the driver cannot unregister stays
  // mapped: the next owner of the addresses would seem registered.
  ~PinnedSlab();
  PinnedSlab(const PinnedSlab&) = delete;
  PinnedSlab& operator=(const PinnedSlab&) = delete;

  // Memory for `size` bytes (positive). May commit and register a chunk, or
  // wait for the thread to have done it. Errors, with nothing taken:
  // ResourceExhausted if there is no room within the limit or no memory.
  absl::StatusOr<Extent> Take(Bytes size);
  // Gives back what Take returned; no copy that touches it may be running.
  void Give(Extent extent) { extents_.Give(extent); }
  // Has the thread make the first `size` bytes, as far as the limit goes. True
  // once they are made, or where the thread makes no more.
  bool Prepare(Bytes size);

  // The byte at that offset; of an extent, the first of so many.
  char* At(int64_t offset) const { return base_ + offset; }
  // One copy must not cross a multiple of this: each is a registration.
  Bytes chunk() const { return chunk_; }
  Bytes limit() const { return extents_.limit(); }
  // The largest size that Take has room for.
  Bytes Largest() const { return extents_.Largest(); }
  SlabStats Stats() const;

  // The driver's first refusal to pin memory; once, and OK otherwise.
  absl::Status TakeRefusal();

 private:
  struct Core;

  PinnedSlab(std::shared_ptr<Core> core, char* base, Bytes limit, Bytes chunk)
      : core_(std::move(core)),
        base_(base),
        chunk_(chunk),
        extents_(limit, kGrain) {}

  const std::shared_ptr<Core> core_;  // shared with the thread
  char* const base_;
  const Bytes chunk_;
  Extents extents_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_PINNED_SLAB_H_
