#include "hooks/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hooks/device.h"
#include "hooks/guarded.h"
#include "hooks/outside.h"
#include "hooks/replay.h"
#include "hooks/stream_order.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

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

// Why the op may not run again; nullptr where it may.
const char* WhyNotAgain(const TapeOp& op) {
  if (op.info->opaque) return op.info->why_opaque;
  if (op.foreign) return "reads a tensor that is not plain";
  if (op.parallel_region) return "ran inside a parallel region";
  return op.verified ? nullptr : "did not repeat its bytes";
}

bool HasItsVersion(const TapeStorage& storage) {
  return storage.version->current_version() == storage.version_number;
}

// An external can be read again while we hold it or it is alive in its size.
bool IsThere(const TapeStorage& storage) {
  if (IsAvailable(storage)) return true;
  const auto impl = storage.identity.lock();
  return impl && impl->nbytes() == storage.bytes;
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

  // Of the last Find.
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
    if (wanted.rewritten) {
      return No(wanted.writers.back(), "has its result rewritten");
    }
    if (wanted.opaque) return NoAsOpaque(wanted);
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
    if (!seen_.insert(storage).second) return true;
    if (!relied_upon_ && (input.doomed || !MayRelyOn(input))) {
      return No(reader, "reads memory that others may write");
    }
    if (input.external) {
      // The version counts for the variable, which may have been given other
      // data since (`p.data = other`); what happens to the bytes that are
      // relied upon is seen by every write, and by the witness.
      return (IsThere(input) && (relied_upon_ || HasItsVersion(input))) ||
             No(reader, "reads an input that is gone");
    }
    if (!IsAvailable(input)) todo_.push_back(storage);
    return true;
  }

  const Tape& tape_;
  const int max_;
  bool relied_upon_ = false;  // witnesses tell whether inputs are good
  std::vector<int> todo_;
  absl::flat_hash_set<int> seen_;
  absl::flat_hash_set<int> ops_;
  Recipe recipe_;
  NoRecipe why_;
};

// One run of a recipe. What it rebuilds for somebody else than itself is put on
// the tape at once, so that memory pressure may take it back; what it still has
// to read is pinned.
class Run {
 public:
  Run(Tape* tape, int target, const Recipe& recipe,
      const RecoveryPolicy& policy)
      : tape_(*tape), target_(target), recipe_(recipe), policy_(policy) {
    for (int op : recipe_.ops) {
      ForEachRead(tape_, op, [&](int read) {
        if (uses_[read]++ == 0) ++tape_.storages[read].pins;
        return true;
      });
    }
    ++tape_.storages[target_].pins;
  }
  ~Run() {
    for (auto [storage, count] : uses_) {
      if (count > 0) --tape_.storages[storage].pins;
    }
    --tape_.storages[target_].pins;
    // Last: settling may free what the recipe read.
    for (int storage : published_) Settle(&tape_, storage);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Execute() {
    const ReplayScope scope;
    for (int op : recipe_.ops) Step(op);
  }

 private:
  bool Keeps(int storage) const {
    const TapeStorage& s = tape_.storages[storage];
    return storage == target_ ||
           (s.hooks > 0 && !IsAvailable(s) && policy_.hold(storage));
  }

  // Bytes to read, or to write in the case of what this run rebuilds.
  c10::Storage Lookup(int index, const TapeOp& op) {
    TapeStorage& storage = tape_.storages[index];
    if (storage.copy || storage.data) {
      UseHere(&storage);
      return storage.copy ? storage.copy : storage.data;
    }
    if (auto made = made_.find(index); made != made_.end()) {
      return made->second;
    }
    if (storage.spill) {
      policy_.restore(index);
      return storage.data;
    }
    if (storage.external) {
      UseHere(&storage);
      return c10::Storage(storage.identity.lock());
    }
    EBBTIDE_CHECK(op.fresh_self);
    return Device::Get().Allocate(storage.bytes, storage.device);
  }

  void Step(int index) {
    const TapeOp& op = tape_.ops[index];
    {
      const Tensors outputs =
          RunAgain(op, [&](int s) { return Lookup(s, op); });
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (op.outputs[i] >= 0) Put(op.outputs[i], index, outputs[i].storage());
      }
    }
    ForEachRead(tape_, index, [&](int read) {
      if (--uses_[read] == 0) {
        --tape_.storages[read].pins;
        made_.erase(read);
      }
      return true;
    });
  }

  void Put(int index, int op, const c10::Storage& bytes) {
    TapeStorage& storage = tape_.storages[index];
    if (IsAvailable(storage)) return;
    // Only what its last writer leaves is what saved tensors mean.
    if (storage.writers.back() == op && Keeps(index)) {
      storage.data = bytes;
      NoteMadeHere(&storage);
      storage.witness.reset();  // of what was there before, gaps and all
      made_.erase(index);
      published_.push_back(index);
    } else if (auto left = uses_.find(index);
               left != uses_.end() && left->second > 0) {
      made_[index] = bytes;
    }
  }

  Tape& tape_;
  const int target_;
  const Recipe& recipe_;
  const RecoveryPolicy& policy_;
  absl::flat_hash_map<int, int> uses_;  // reads still to come
  absl::flat_hash_map<int, c10::Storage> made_;
  std::vector<int> published_;
};

// Owed storages by what their recipes read; a plan that asks for a storage
// nobody saved is among its dependents as well (hooks/plan_run.h).
std::vector<int> CountOwedReaders(const Tape& tape) {
  std::vector<int> readers(tape.storages.size());
  for (int i = 0; i < static_cast<int>(tape.storages.size()); ++i) {
    if (!tape.storages[i].owed) continue;
    for (int input : RecipeInputs(tape, i)) ++readers[input];
  }
  return readers;
}

// Throws where an input has been written without an op.
void CheckWitnesses(const Recipe& recipe, Tape* tape) {
  absl::flat_hash_set<int> seen;
  for (int op : recipe.ops) {
    ForEachRead(*tape, op, [&](int read) {
      if (!seen.insert(read).second) return true;
      TORCH_CHECK(
          IsAsWitnessed(&tape->storages[read]), "ebbtide: a tensor that ",
          tape->ops[op].info->name, " has read was written behind PyTorch's ",
          "back (a NumPy array over it, a raw pointer, another process) "
          "between forward and backward, and what was made of it has been "
          "dropped; give PyTorch a copy of such an array");
      return true;
    });
  }
}

}  // namespace

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

std::vector<int> FindDependents(const Tape& tape, int storage) {
  // Whether the recipe of what is owed reads `storage`, at any depth.
  std::vector<std::optional<bool>> needs(tape.storages.size());
  needs[storage] = true;
  const auto find = [&](int index, const auto& recurse) -> bool {
    if (needs[index]) return *needs[index];
    needs[index] = false;  // what reads itself adds nothing
    if (!tape.storages[index].owed) return false;
    for (int input : RecipeInputs(tape, index)) {
      if (recurse(input, recurse)) {
        needs[index] = true;
        break;
      }
    }
    return *needs[index];
  };
  const std::vector<int> readers = CountOwedReaders(tape);
  std::vector<int> dependents;
  for (int i = 0; i < static_cast<int>(tape.storages.size()); ++i) {
    const TapeStorage& s = tape.storages[i];
    const bool asked_for = s.hooks > 0 || s.dependents > readers[i];
    if (s.owed && asked_for && i != storage && find(i, find)) {
      dependents.push_back(i);
    }
  }
  return dependents;
}

namespace {

// Of what has been rebuilt the program has nothing to free.
void GuardBlock(TapeStorage* storage) {
  if (storage->guarded != nullptr || !HoldsOriginal(*storage)) return;
  storage->guarded = storage->data.data();
  if (storage->guarded == nullptr) return;
  Device::Get().SeeFree(storage->data);
  Guard(storage->guarded);
}

void UnguardBlock(TapeStorage* storage) {
  if (storage->guarded == nullptr) return;
  Unguard(std::exchange(storage->guarded, nullptr));
}

}  // namespace

void Settle(Tape* tape, int storage) {
  std::vector<int> todo = {storage};
  // Bytes are freed last, when every count is right again.
  std::vector<c10::Storage> garbage;
  while (!todo.empty()) {
    const int index = todo.back();
    todo.pop_back();
    TapeStorage& s = tape->storages[index];
    const bool wanted = s.hooks > 0 || s.dependents > 0;
    if (s.dependents == 0) UnguardBlock(&s);
    if (!wanted && !s.captured) {
      garbage.push_back(LetGo(&s));
      s.spill.reset();
    } else if (wanted && s.external && !IsAvailable(s)) {
      s.data = c10::Storage(s.identity.lock());
    }
    if (s.dependents > 0) GuardBlock(&s);
    const bool owed = wanted && !s.external && !IsAvailable(s);
    if (owed == s.owed) continue;
    s.owed = owed;
    tape->owed += owed ? 1 : -1;
    for (int index_read : RecipeInputs(*tape, index)) {
      TapeStorage& input = tape->storages[index_read];
      input.dependents += owed ? 1 : -1;
      if (owed) {
        TakeWitness(&input);
        input.needed_at = std::max(input.needed_at, s.needed_at);
      } else if (input.dependents == 0) {
        input.needed_at = input.packed_at;
      }
      todo.push_back(index_read);
    }
  }
}

void Drop(Tape* tape, int storage) {
  EBBTIDE_CHECK(!tape->storages[storage].spill);
  const c10::Storage bytes = LetGo(&tape->storages[storage]);
  Settle(tape, storage);
}

int Recover(Tape* tape, int storage, const RecoveryPolicy& policy) {
  std::optional<Recipe> recipe = FindRecipe(*tape, storage);
  TORCH_CHECK(recipe.has_value(),
              "ebbtide: a dropped saved tensor has lost its recipe");
  CheckWitnesses(*recipe, tape);
  const int ops = recipe->ops.size();
  Run(tape, storage, *recipe, policy).Execute();
  return ops;
}

}  // namespace ebbtide
