// The seam between an arena and the device: physical pages, the addresses that
// they are mapped at, and the order of the streams that use them.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_SYSTEM_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_SYSTEM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/units.h"

namespace ebbtide {

// Blocks begin at multiples of it. PyTorch's native allocator rounds to it.
inline constexpr int64_t kArenaGrain = 512;

// Called under the arena's lock.
class PageSystem {
 public:
  virtual ~PageSystem() = default;

  // Bytes of a page; a multiple of kArenaGrain. Constant.
  virtual Bytes page() const = 0;
  // Addresses of so many bytes, in whole pages. They are reserved for ever.
  virtual absl::StatusOr<char*> Reserve(Bytes size) = 0;
  // The number of pages that may be mapped besides those that are.
  virtual int64_t Room() const = 0;
  // A page of physical memory.
  virtual absl::StatusOr<uint64_t> Create() = 0;
  // The page is not mapped.
  virtual void Release(uint64_t page) = 0;
  // Maps the pages one behind the other, from `at` on. On failure none is.
  virtual absl::Status Map(char* at, absl::Span<const uint64_t> pages) = 0;
  // Unmaps `count` pages, one behind the other, from `at` on. No queued work
  // uses them. On failure all stay.
  virtual absl::Status Unmap(char* at, int64_t count) = 0;
  // Maps pages that are mapped a second time, and unmaps them there alone.
  virtual absl::Status MapAgain(char* at, absl::Span<const uint64_t> pages) = 0;
  virtual absl::Status UnmapAlias(char* at, int64_t count) = 0;
};

// The end of the work that was queued on a stream at some time.
using StreamMark = std::shared_ptr<const void>;

// Orders streams, which are numbered from 0 on. Called under the arena's lock.
// Unavailable while a capture is going on, which would record what is queued.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // Streams that are numbered so far.
  virtual int streams() const = 0;
  virtual absl::StatusOr<StreamMark> Mark(int stream) = 0;
  // Work that is queued on the stream from now on runs behind the mark.
  virtual absl::Status RunBehind(const StreamMark& mark, int stream) = 0;
  virtual bool IsOver(const StreamMark& mark) = 0;
  // Blocks until the work before the mark is done.
  virtual absl::Status Wait(const StreamMark& mark) = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PAGE_SYSTEM_H_
