// The point of a request at which memory turns out to be short.
#ifndef EBBTIDE_ALLOCATOR_SHORTAGE_H_
#define EBBTIDE_ALLOCATOR_SHORTAGE_H_

namespace ebbtide {

enum class Shortage {
  kForeseen,  // no lock of an allocator is held
  kMissed,    // the allocator's lock is held: waiting for a lock of ours could
              // be for ever
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_SHORTAGE_H_
