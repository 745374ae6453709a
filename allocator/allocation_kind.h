// `AllocationKind` says as what large blocks of this thread count, and
// `AllocationFill` with what its new blocks are filled, on every device.
#ifndef EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
#define EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_

#include <cstdint>

#include "profiler/kind.h"

namespace ebbtide {

// Until the end of its scope; kOther outside of any.
class AllocationKind {
 public:
  explicit AllocationKind(Kind kind) : outer_(kind_) { kind_ = kind; }
  ~AllocationKind() { kind_ = outer_; }
  AllocationKind(const AllocationKind&) = delete;
  AllocationKind& operator=(const AllocationKind&) = delete;

  static Kind Current() { return kind_; }

 private:
  // Read at every allocation; see hooks/thread_flag.h.
  [[gnu::tls_model("initial-exec")]] static inline thread_local Kind kind_ =
      Kind::kOther;
  Kind outer_;
};

// New blocks are filled with one byte until the end of its scope, to see who
// reads bytes that nobody wrote.
class AllocationFill {
 public:
  explicit AllocationFill(uint8_t byte) : outer_(byte_) { byte_ = byte; }
  ~AllocationFill() { byte_ = outer_; }
  AllocationFill(const AllocationFill&) = delete;
  AllocationFill& operator=(const AllocationFill&) = delete;

  // -1: they are not filled.
  static int Current() { return byte_; }

 private:
  [[gnu::tls_model("initial-exec")]] static inline thread_local int byte_ = -1;
  const int outer_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
