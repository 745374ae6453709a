// Rematerialization on a tape: what it takes to rebuild a storage, dropping it,
// and rebuilding it.
//
// A storage that somebody will ask for (a saved tensor, or the recipe of a
// dropped storage) is either available or *owed*: its recipe's inputs are then
// held for it, recursively, until it is rebuilt or nobody asks any more. Settle
// restores that invariant after every change; nothing else touches the counts.
#ifndef EBBTIDE_HOOKS_RECOVERY_H_
#define EBBTIDE_HOOKS_RECOVERY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "hooks/tape.h"

namespace ebbtide {

// The ops that rebuild a storage, in execution order (their order on the tape),
// and how long they took when they were recorded.
struct Recipe {
  std::vector<int> ops;
  double nanoseconds = 0;
};

inline constexpr int kMostOps = 4096;

// The recipe of `storage` as if its bytes were gone, from what is available
// now; nullopt where there is none: an op that is opaque, not verified, or
// reads a version that has been overwritten since; an input that is gone; more
// than `max_ops` ops. `why`: is told for people which op stands in the way, and
// how ("nonzero: the shape of its output depends on data").
std::optional<Recipe> FindRecipe(const Tape& tape, int storage,
                                 int max_ops = kMostOps);

// What stands in the way of a recipe: of an op (-1: of none in particular).
struct NoRecipe {
  int op = -1;
  std::string reason;  // goes on after the op's name
};
// Nullopt where FindRecipe finds one.
std::optional<NoRecipe> WhyNoRecipe(const Tape& tape, int storage);

// Re-establishes the invariant for `storage` after its hooks, dependents, data
// or spill changed. Frees bytes that nobody asks for.
void Settle(Tape* tape, int storage);

// Forgets the bytes of a storage that has a recipe. Its spill slot must be
// empty.
void Drop(Tape* tape, int storage);

// What a recovery calls back for.
struct RecoveryPolicy {
  // Whether a rebuilt storage other than the target stays on the device.
  std::function<bool(int storage)> hold;
  // Brings a spilled storage back (fills its `data`).
  std::function<void(int storage)> restore;
};

// Rebuilds `storage`. Throws what a replayed op throws, the tape unchanged.
// Returns the ops run.
int Recover(Tape* tape, int storage, const RecoveryPolicy& policy);

// Owed storages whose recipes read `storage`, at any depth, and that saved
// tensors, or a plan, will ask for.
std::vector<int> FindDependents(const Tape& tape, int storage);

// Storages read by the ops that wrote `storage`, itself excluded, each once.
std::vector<int> RecipeInputs(const Tape& tape, int storage);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RECOVERY_H_
