// Finds the ops that recompute a storage from a recorded tape.
#ifndef EBBTIDE_HOOKS_RECIPE_H_
#define EBBTIDE_HOOKS_RECIPE_H_

#include <c10/core/Storage.h>

#include <optional>
#include <string>
#include <vector>

#include "hooks/replay.h"
#include "hooks/tape.h"

namespace ebbtide {

// Storages that an op reads, one visit for each tensor argument. False where
// `visit` has ended the walk.
template <typename Visit>  // bool Visit(int storage); false ends the walk
bool ForEachRead(const Tape& tape, int op_index, Visit visit) {
  const TapeOp& op = tape.ops[op_index];
  for (int i = 0; i < static_cast<int>(op.arguments.size()); ++i) {
    if (!ReadsArgument(op, i)) continue;
    for (const TensorArgument& t : op.arguments[i].tensors) {
      if (t.storage >= 0 && !visit(t.storage)) return false;
    }
  }
  return true;
}

// The ops that recompute a storage, in execution order (their order on the
// tape), and their recorded time.
struct Recipe {
  std::vector<int> ops;
  double nanoseconds = 0;
  // Inputs that only the program holds and that another thread may release at
  // any time: held until the recipe is relied upon or discarded.
  std::vector<c10::Storage> held;
};

inline constexpr int kMostOps = 4096;

// True if recomputing the op gives the same bytes, and they are those that it
// left.
bool RunsAgain(const TapeOp& op);

// The recipe of `storage` as if its bytes were gone, from what is available
// now; nullopt where there is none: recomputing is switched off; an op that is
// opaque, not verified, or reads a version that has been overwritten since; an
// input that is gone; more than `max_ops` ops.
std::optional<Recipe> FindRecipe(const Tape& tape, int storage,
                                 int max_ops = kMostOps);

// Why there is no recipe, for messages: an op (-1: none in particular) and a
// reason ("the shape of its output depends on data").
struct NoRecipe {
  int op = -1;
  std::string reason;  // goes on after the op's name
};
// Nullopt where FindRecipe finds one.
std::optional<NoRecipe> WhyNoRecipe(const Tape& tape, int storage);

// Storages read by the ops that wrote `storage`, itself excluded, each once.
std::vector<int> RecipeInputs(const Tape& tape, int storage);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RECIPE_H_
