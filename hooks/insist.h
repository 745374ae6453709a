// Work of our own on a device, of which a call may fail.
//
// If a call of the program fails, PyTorch raises the error. A call made by
// ebbtide alone must not end a step that would have succeeded without it, and
// most causes of a failed call are gone at the next.
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
