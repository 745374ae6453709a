#include "hooks/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hooks/device.h"
#include "hooks/guarded.h"
#include "hooks/outside.h"
#include "hooks/recipe.h"
#include "hooks/replay.h"
#include "hooks/stream_order.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

// Keeps what an op reads where it is.
class Pinned {
 public:
  Pinned(Tape* tape, int op) : tape_(*tape), op_(op) { Add(1); }
  ~Pinned() { Add(-1); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  void Add(int pins) {
    ForEachRead(tape_, op_, [&](int read) {
      tape_.storages[read].pins += pins;
      return true;
    });
  }

  Tape& tape_;
  const int op_;
};

// One execution of a recipe. Each storage that it recomputes, for a user or for
// its own later ops, is put on the tape at once, so that it can be evicted
// again: a storage that a later op reads may be offloaded, but not dropped, so
// that with a host tier no execution holds more than its largest op.
class Run {
 public:
  Run(Tape* tape, int target, const Recipe& recipe,
      const RecoveryPolicy& policy)
      : tape_(*tape), target_(target), recipe_(recipe), policy_(policy) {
    for (int op : recipe_.ops) {
      ForEachRead(tape_, op, [&](int read) {
        if (uses_[read]++ == 0) ++tape_.storages[read].awaited;
        return true;
      });
    }
    ++tape_.storages[target_].pins;
  }
  ~Run() {
    for (auto [storage, count] : uses_) {
      if (count > 0) EndReads(storage);
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

  // Returns the bytes to read, or the bytes to write for a storage that this
  // execution recomputes.
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
      const Pinned pinned(&tape_, index);
      const Tensors outputs =
          RunAgain(op, [&](int s) { return Lookup(s, op); });
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (op.outputs[i] >= 0) Put(op.outputs[i], index, outputs[i].storage());
      }
    }
    ForEachRead(tape_, index, [&](int read) {
      if (--uses_[read] == 0) EndReads(read);
      return true;
    });
  }

  void Put(int index, int op, const c10::Storage& bytes) {
    TapeStorage& storage = tape_.storages[index];
    if (IsAvailable(storage)) return;
    const bool keeps = Keeps(index);
    const auto left = uses_.find(index);
    const bool is_read = left != uses_.end() && left->second > 0;
    if (!is_read && !keeps) return;
    // Only what its last writer leaves is what others mean.
    if (storage.writers.back() != op) {
      if (is_read) made_[index] = bytes;
      return;
    }
    storage.data = bytes;
    storage.lent = !keeps;
    NoteMadeHere(&storage);
    storage.witness.reset();  // it was of the earlier content, gaps included
    made_.erase(index);
    if (keeps) published_.push_back(index);
  }

  void EndReads(int index) {
    TapeStorage& storage = tape_.storages[index];
    --storage.awaited;
    made_.erase(index);
    if (!storage.lent) return;
    storage.lent = false;
    storage.spill.reset();
    LetGo(&storage);
  }

  Tape& tape_;
  const int target_;
  const Recipe& recipe_;
  const RecoveryPolicy& policy_;
  absl::flat_hash_map<int, int> uses_;  // reads still to come
  absl::flat_hash_map<int, c10::Storage> made_;
  std::vector<int> published_;
};

// Owed storages by what their recipes read; a plan that asks for a storage that
// is not saved is among its dependents as well (hooks/plan_run.h).
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
      CheckWitness(*tape->ops[op].info, &tape->storages[read]);
      return true;
    });
  }
}

}  // namespace

std::vector<int> FindDependents(const Tape& tape, int storage) {
  // True if the recipe of an owed storage reads `storage`, at any depth.
  std::vector<std::optional<bool>> needs(tape.storages.size());
  needs[storage] = true;
  const auto find = [&](int index, const auto& recurse) -> bool {
    if (needs[index]) return *needs[index];
    needs[index] = false;  // a cycle adds nothing
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

// Guards the block of a storage that recipes read. A recomputed storage needs
// no guard: the program cannot free it.
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
    const bool owed = wanted && !s.external && (s.lent || !IsAvailable(s));
    if (owed == s.owed) continue;
    s.owed = owed;
    tape->owed += owed ? 1 : -1;
    for (int index_read : RecipeInputs(*tape, index)) {
      TapeStorage& input = tape->storages[index_read];
      input.dependents += owed ? 1 : -1;
      if (owed) {
        TakeWitness(tape, index_read);
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

namespace {

// For people.
std::string WhyLost(const Tape& tape, int storage) {
  const std::optional<NoRecipe> none = WhyNoRecipe(tape, storage);
  if (!none) return "";
  const std::string op = none->op < 0 ? "it" : tape.ops[none->op].info->name;
  return op + " " + none->reason;
}

}  // namespace

int Recover(Tape* tape, int storage, const RecoveryPolicy& policy) {
  std::optional<Recipe> recipe = FindRecipe(*tape, storage);
  TORCH_CHECK_WITH(OutOfMemoryError, recipe.has_value() || !tape->ran_short,
                   "ebbtide: out of memory: there was none to rebuild a "
                   "dropped saved tensor before what it is made of was "
                   "written: ",
                   WhyLost(*tape, storage));
  TORCH_CHECK(recipe.has_value(),
              "ebbtide: a dropped saved tensor has lost its recipe: ",
              WhyLost(*tape, storage));
  CheckWitnesses(*recipe, tape);
  const int ops = recipe->ops.size();
  Run(tape, storage, *recipe, policy).Execute();
  return ops;
}

}  // namespace ebbtide
