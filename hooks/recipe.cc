#include "hooks/recipe.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "hooks/outside.h"

namespace ebbtide {
namespace {

// Returns why the op may not be recomputed, or nullptr if it may.
const char* WhyNotAgain(const TapeOp& op) {
  if (op.info->opaque) return op.info->why_opaque;
  if (op.foreign) return "reads a tensor that is not plain";
  if (op.parallel_region) return "ran inside a parallel region";
  // As in a custom function or a compiled graph, whose kernels write into
  // results of ops, and are no ops themselves.
  if (!op.grad_mode) return "ran where gradients are off";
  if (op.verified) return nullptr;
  // A trial takes memory, which may be refused, and an op may end before one.
  return op.tried ? "did not repeat its bytes"
                  : "has not been proven to repeat its bytes";
}

bool HasItsVersion(const TapeStorage& storage) {
  return storage.version->current_version() == storage.version_number;
}

class RecipeSearch {
 public:
  RecipeSearch(const Tape& tape, int max_ops) : tape_(tape), max_(max_ops) {}

  std::optional<Recipe> Find(int target) {
    relied_upon_ = tape_.storages[target].owed;
    if (tape_.blind && !relied_upon_) {
      No(-1, "writes have gone unseen");
      return std::nullopt;
    }
    todo_ = {target};
    seen_ = {target};
    while (!todo_.empty()) {
      const int storage = todo_.back();
      todo_.pop_back();
      if (!AddWriters(storage)) return std::nullopt;
    }
    std::sort(recipe_.ops.begin(), recipe_.ops.end());
    return recipe_;
  }

  // The reason why the last Find failed.
  const NoRecipe& why() const { return why_; }

 private:
  bool No(int op, const char* reason) {
    why_ = {.op = op, .reason = reason};
    return false;
  }

  bool NoAsOpaque(const TapeStorage& wanted) {
    for (int op : wanted.writers) {
      const char* refused = WhyNotAgain(tape_.ops[op]);
      if (refused != nullptr) return No(op, refused);
    }
    return No(wanted.writers.front(), "has saved it but does not return it");
  }

  bool AddWriters(int storage) {
    const TapeStorage& wanted = tape_.storages[storage];
    if (wanted.writers.empty()) return No(-1, "made by no op of the pair");
    if (!tape_.may_recompute) {
      return No(wanted.writers.back(),
                "is not recomputed: EBBTIDE_RECOMPUTE=0 switches that off");
    }
    if (wanted.rewritten) {
      return No(wanted.writers.back(), "has its result rewritten");
    }
    if (wanted.opaque) return NoAsOpaque(wanted);
    if (!relied_upon_ && MayHaveChangedSince(wanted, wanted.writers.front())) {
      return No(wanted.writers.back(),
                "has its result saved by a custom function");
    }
    for (int op : wanted.writers) {
      if (!ops_.insert(op).second) continue;
      const char* refused = WhyNotAgain(tape_.ops[op]);
      if (refused != nullptr) return No(op, refused);
      if (static_cast<int>(ops_.size()) > max_) return No(op, "is too far");
      recipe_.ops.push_back(op);
      recipe_.nanoseconds += tape_.ops[op].nanoseconds;
      if (!ForEachRead(tape_, op, [&](int read) {
            return read == storage || AddInput(op, read);
          })) {
        return false;
      }
    }
    return true;
  }

  bool AddInput(int reader, int storage) {
    const TapeStorage& input = tape_.storages[storage];
    if (!IsCurrentFor(input, reader)) {
      return No(reader, "read what was overwritten since");
    }
    if (!relied_upon_ && MayHaveChangedSince(input, reader)) {
      return No(reader, "read what a custom function has saved since");
    }
    if (!seen_.insert(storage).second) return true;
    if (!relied_upon_ && (input.doomed || !MayRelyOn(input))) {
      return No(reader, "reads memory that others may write");
    }
    if (input.external) {
      // The version counts for the variable, which may have been given other
      // data since (`p.data = other`); what happens to the bytes that are
      // relied upon is seen by every write, and by the witness.
      return (HoldExternal(input) && (relied_upon_ || HasItsVersion(input))) ||
             No(reader, "reads an input that is gone");
    }
    if (!IsAvailable(input) || input.lent) todo_.push_back(storage);
    return true;
  }

  // An external can be read again while we hold it or it is alive in its size.
  bool HoldExternal(const TapeStorage& input) {
    if (input.data) return input.data.nbytes() >= input.bytes;
    if (input.spill) return true;
    c10::Storage bytes(input.identity.lock());
    if (!bytes || bytes.nbytes() != input.bytes) return false;
    recipe_.held.push_back(std::move(bytes));
    return true;
  }

  const Tape& tape_;
  const int max_;
  bool relied_upon_ = false;  // witnesses show whether inputs are unchanged
  std::vector<int> todo_;
  absl::flat_hash_set<int> seen_;
  absl::flat_hash_set<int> ops_;
  Recipe recipe_;
  NoRecipe why_;
};

}  // namespace

bool RunsAgain(const TapeOp& op) { return WhyNotAgain(op) == nullptr; }

std::optional<Recipe> FindRecipe(const Tape& tape, int storage, int max_ops) {
  return RecipeSearch(tape, max_ops).Find(storage);
}

std::optional<NoRecipe> WhyNoRecipe(const Tape& tape, int storage) {
  RecipeSearch search(tape, kMostOps);
  if (search.Find(storage)) return std::nullopt;
  return search.why();
}

std::vector<int> RecipeInputs(const Tape& tape, int storage) {
  std::vector<int> inputs;
  for (int op : tape.storages[storage].writers) {
    ForEachRead(tape, op, [&](int read) {
      if (read != storage) inputs.push_back(read);
      return true;
    });
  }
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return inputs;
}

}  // namespace ebbtide
