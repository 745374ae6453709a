// Copies of what an in-place op overwrites.
//
// Where the derivative of `x.silu_()` needs the old `x`, autograd saves a copy
// that it makes inside the op, unseen by the recorder. Its bytes are those that
// the earlier writers of x's storage left, so it is recomputed as they were
// made: the copy becomes a storage of its own on the tape, made by *twins* of
// those ops, which write the copy instead of x's storage. Twins are on the tape
// like any op, after the in-place op; the job never ran them.
#ifndef EBBTIDE_HOOKS_TWIN_H_
#define EBBTIDE_HOOKS_TWIN_H_

#include "hooks/tape.h"

namespace ebbtide {

// `bytes` are being saved inside op `op`. The storage that the op is about to
// overwrite, if they are a copy of it; else -1.
int FindOverwritten(const Tape& tape, int op, const c10::Storage& bytes);

// Appends the twins that make `copy`, whose `copy_of` is known, at the end of
// op `op`. False, and nothing done, where what they would read has been written
// since.
bool AddTwins(Tape* tape, int op, int copy);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_TWIN_H_
