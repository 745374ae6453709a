// Bytes that can change without PyTorch noticing: a NumPy array over them, a
// mapping in another process, a raw pointer. No op runs and no version counter
// moves, so a recipe that reads such bytes could recompute something else.
//
// ebbtide can only see that a storage is *exported*: tensor.numpy() and
// from_numpy() leave it not resizable, as is all memory that is not an
// allocator's; memory shared between processes is exported, too. No recipe
// reads a storage that was exported when the recipe would be relied upon,
// unless it is
//   - a parameter that no other process may train (Hogwild): scripts look at
//     those with numpy() and write them by ops;
//   - mapped memory that is new: batches of DataLoader workers, weights of a
//     file;
//   - unchanged since the pair before: tables and frozen weights;
//   - small: then it is copied when it is first read, and again by every op
//     that reads it once it has been seen to change between two.
// Whatever is relied upon is compared by its digest, so that what is written
// later, or through a pointer, is an error and not a wrong gradient: before it
// is read again, or, on a device whose work is queued, before backward returns.
#ifndef EBBTIDE_HOOKS_OUTSIDE_H_
#define EBBTIDE_HOOKS_OUTSIDE_H_

#include <c10/core/Storage.h>

#include "hooks/tape.h"

namespace ebbtide {

bool IsExported(const c10::Storage& bytes);

// An op is about to read `storage`, an external that the tape has not seen yet.
// Fills in `trusted`, `copy` and `witness`.
void NoteExternal(const c10::Storage& bytes, bool parameter,
                  TapeStorage* storage);

// An op is about to read `storage` again. True where the copy has other bytes
// by now, or may have soon: what is read is another input then.
bool IsAnotherInput(const c10::Storage& bytes, const TapeStorage& storage);

// Fully sharded training frees the block of a parameter after its use in
// forward and fills another one before backward, with neither an op nor a
// version that says so. From now on, as long as the tape lives, the free is
// seen.
void WatchBlock(const c10::Storage& bytes, TapeStorage* storage);
// It has come. Its storage will not be relied upon in later pairs either.
void NoteComesAndGoes(const c10::Storage& bytes);

// True if a recipe may rely on the storage as it is now.
bool MayRelyOn(const TapeStorage& storage);
// Notes the bytes that recipes rely on from now on. Throws as an op does.
void TakeWitness(Tape* tape, int storage);
// `WitnessScope` is a scope of this thread that decides how witnesses are taken
// in it. An allocation makes room as a part of some op, and no op runs inside
// another: its witnesses are taken when that op ends (TakeDueWitnesses), and by
// the host where the end is not observed. A recomputation calls
// TakeDueWitnesses when it ends.
class WitnessScope {
 public:
  enum Kind { kAllocation, kReplay, kKinds };
  explicit WitnessScope(Kind kind);
  ~WitnessScope();
  WitnessScope(const WitnessScope&) = delete;
  WitnessScope& operator=(const WitnessScope&) = delete;

 private:
  const Kind kind_;
};
void TakeDueWitnesses(Tape* tape);
// True if some tape may have one.
bool AreWitnessesDue();
// True if TakeWitness would read the bytes, and so wait for the work that makes
// them.
bool TakesWitness(const TapeStorage& storage);
// Before the op of a recipe reads it. Throws where it was written behind our
// back; on a device whose work is queued, FindMisled finds that out.
void CheckWitness(const OpInfo& op, TapeStorage* storage);
// Waits for the checks that are queued. Returns an op that has read what was
// written behind our back, or nullptr. Throws as a copy to the host does.
const OpInfo* FindMisled();
// Throws the error for that.
[[noreturn]] void ThrowMisled(const OpInfo& op);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_OUTSIDE_H_
