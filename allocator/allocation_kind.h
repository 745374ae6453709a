// What large blocks that this thread allocates count as, on every device.
#ifndef EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
#define EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_

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

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
