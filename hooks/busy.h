// A per-thread flag around our own tensor work: recorder, pack hooks and
// eviction leave alone what the runtime itself does.
#ifndef EBBTIDE_HOOKS_BUSY_H_
#define EBBTIDE_HOOKS_BUSY_H_

#include "hooks/thread_flag.h"

namespace ebbtide {

using Busy = ThreadFlag<struct BusyName>;

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_BUSY_H_
