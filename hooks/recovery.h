// Recomputation on a tape: dropping a storage, and recomputing it by its recipe
// (hooks/recipe.h).
//
// A storage with a user (a saved tensor, or the recipe of a dropped storage) is
// either available or *owed*: its recipe's inputs are then held for it,
// recursively, until it is recomputed or has no user any more. Settle restores
// that invariant after every change; nothing else touches the counts.
#ifndef EBBTIDE_HOOKS_RECOVERY_H_
#define EBBTIDE_HOOKS_RECOVERY_H_

#include <functional>
#include <vector>

#include "hooks/tape.h"

namespace ebbtide {

// Re-establishes the invariant for `storage` after a change of its hooks,
// dependents, data or spill slot. Frees bytes without a user.
void Settle(Tape* tape, int storage);

// Drops the bytes of a storage that has a recipe. Its spill slot must be empty.
void Drop(Tape* tape, int storage);

// Callbacks of a recovery.
struct RecoveryPolicy {
  // True if a recomputed storage other than the target stays on the device.
  std::function<bool(int storage)> hold;
  // Restores an offloaded storage (fills its `data`).
  std::function<void(int storage)> restore;
};

// Recomputes `storage`. Throws what a recomputed op throws, the tape unchanged.
// Returns the ops run.
int Recover(Tape* tape, int storage, const RecoveryPolicy& policy);

// Owed storages whose recipes read `storage`, at any depth, and that saved
// tensors, or a plan, will ask for.
std::vector<int> FindDependents(const Tape& tape, int storage);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RECOVERY_H_
