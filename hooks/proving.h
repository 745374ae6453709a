// A per-thread flag around what proves that an op or a recipe repeats: the
// memory that it takes may be refused, because the step must not exceed its
// budget for a proof that a later step can have.
#ifndef EBBTIDE_HOOKS_PROVING_H_
#define EBBTIDE_HOOKS_PROVING_H_

#include "hooks/thread_flag.h"

namespace ebbtide {

using Proving = ThreadFlag<struct ProvingName>;

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PROVING_H_
