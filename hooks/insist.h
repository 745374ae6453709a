// Work of our own on a device, of which a call may fail.
//
// Where the program's own call fails the program is told, by PyTorch. A call
// that only we have made must not end a step that would have gone well without
// us, and what makes one call fail is mostly gone at the next.
#ifndef EBBTIDE_HOOKS_INSIST_H_
#define EBBTIDE_HOOKS_INSIST_H_

#include <c10/util/Exception.h>

namespace ebbtide {

// Does the work, which may begin again from wherever it stopped; once more
// where PyTorch has thrown, but not where memory is short: that has been seen
// to. Throws what the second attempt throws.
template <typename Work>
auto Insist(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    return work();
  }
}

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_INSIST_H_
