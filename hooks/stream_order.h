// Streams whose queued work may touch the bytes of a storage of the tape
// (hooks/device.h).
//
// A storage has a list of the streams whose queued work may touch its present
// bytes, the one that made them first. The program orders its own streams;
// ebbtide's additional work (recomputation, copies, early frees) is ordered
// here. On a device without streams nothing of this does anything. Under the
// runtime's lock.
#ifndef EBBTIDE_HOOKS_STREAM_ORDER_H_
#define EBBTIDE_HOOKS_STREAM_ORDER_H_

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <optional>

#include "hooks/device.h"
#include "hooks/tape.h"

namespace ebbtide {

namespace internal {
void UseHere(TapeStorage* storage);
void NoteMadeHere(TapeStorage* storage);
void NoteUses(Tape* tape, int op);
}  // namespace internal

// Work queued on the current stream from now on may touch the bytes.
inline void UseHere(TapeStorage* storage) {
  if (Device::Get().is_async()) internal::UseHere(storage);
}

// The present bytes were made, and allocated, on the current stream.
inline void NoteMadeHere(TapeStorage* storage) {
  if (Device::Get().is_async()) internal::NoteMadeHere(storage);
}

// The program has just run the op.
inline void NoteUses(Tape* tape, int op) {
  if (Device::Get().is_async()) internal::NoteUses(tape, op);
}

// Hands over our reference to the bytes, for it to be dropped: if that frees
// them, whoever takes their memory next comes after all who use them.
c10::Storage LetGo(TapeStorage* storage);

// The stream after which a copy of the bytes has to run.
std::optional<c10::Stream> MakerStream(TapeStorage* storage);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_STREAM_ORDER_H_
