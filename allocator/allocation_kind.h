// `AllocationKind` says as what large blocks of this thread count, and
// `AllocationFill` with what its new blocks are filled, on every device.
#ifndef EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
#define EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_

#include "profiler/kind.h"

namespace ebbtide {

// A value of this thread until the end of its scope; kOutside outside of any.
// Each type has a variable of its own.
template <typename Value, Value kOutside>
class ThreadValue {
 public:
  explicit ThreadValue(Value value) : outer_(value_) { value_ = value; }
  ~ThreadValue() { value_ = outer_; }
  ThreadValue(const ThreadValue&) = delete;
  ThreadValue& operator=(const ThreadValue&) = delete;

  static Value Current() { return value_; }

 private:
  // Read at every allocation; see hooks/thread_flag.h.
  [[gnu::tls_model("initial-exec")]] static inline thread_local Value value_ =
      kOutside;
  const Value outer_;
};

using AllocationKind = ThreadValue<Kind, Kind::kOther>;
// New blocks are filled with one byte, to expose reads of unwritten bytes; -1:
// they are not filled.
using AllocationFill = ThreadValue<int, -1>;

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ALLOCATION_KIND_H_
