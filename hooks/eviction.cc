#include "hooks/eviction.h"

#include <algorithm>
#include <utility>

#include "hooks/outside.h"
#include "hooks/recipe.h"
#include "hooks/weights.h"

namespace ebbtide {
namespace {

// A launch is never free; keeps tiny costs from dominating the score.
constexpr double kLeastCost = 2000;

// True if using the recipe requires reading bytes now.
bool TakesWitness(const Tape& tape, const Recipe& recipe) {
  for (int op : recipe.ops) {
    const bool none = ForEachRead(
        tape, op, [&](int read) { return !TakesWitness(tape.storages[read]); });
    if (!none) return true;
  }
  return false;
}

// The storage that was packed last is needed first, except for those that a
// running recomputation reads.
double Ahead(const Tape& tape, const TapeStorage& storage, double now) {
  const double until =
      storage.awaited > 0 ? 0 : std::max(0.0, now - storage.needed_at);
  return until + kNear * tape.clock + 1;
}

Bytes SizeOf(const TapeStorage& storage) {
  return Bytes{static_cast<int64_t>(storage.bytes)};
}

// True if the storage can be offloaded and the tier has room for it.
bool HasRoom(const EvictionQuery& query, const TapeStorage& storage) {
  return query.spill && SizeOf(storage) <= query.spill->largest;
}

bool MayBeDropped(const TapeStorage& storage) {
  return !storage.external && storage.awaited == 0;
}

// No recipe costs less than the ops that wrote the storage.
double LeastRecipe(const Tape& tape, const TapeStorage& storage) {
  double own = kLeastCost;
  for (int writer : storage.writers) own += tape.ops[writer].nanoseconds;
  return own;
}

std::optional<Recipe> UsableRecipe(const Tape& tape, int storage,
                                   const Pressure& pressure) {
  auto recipe = FindRecipe(tape, storage);
  // Nothing may be waited for under a lock.
  if (recipe && pressure.is_locked && TakesWitness(tape, *recipe)) {
    return std::nullopt;
  }
  return recipe;
}

}  // namespace

bool IsEvictable(const TapeStorage& storage, size_t least) {
  return storage.data && storage.bytes >= std::max<size_t>(least, 1) &&
         storage.pins == 0 && storage.hooks + storage.dependents > 0 &&
         !storage.captured && storage.data.use_count() == 1 &&
         !IsAway(storage.data) && Device::Get().IsReclaimable(storage.data);
}

Bytes OfferVictims(const std::shared_ptr<Tape>& tape,
                   const EvictionQuery& query, EvictionChoice* choice,
                   std::vector<Victim>* victims) {
  const std::optional<SpillTerms>& spill = query.spill;
  Bytes refused{};
  for (int i = 0; i < static_cast<int>(tape->storages.size()); ++i) {
    const TapeStorage& storage = tape->storages[i];
    if (storage.device != query.pressure.device) continue;
    if (!IsEvictable(storage, query.least)) continue;
    const double ahead = Ahead(*tape, storage, query.now);
    const double bytes = static_cast<double>(storage.bytes);
    const auto offer = [&](Victim::How how, double cost) {
      if (!choice->MayWin(bytes, ahead, cost + kLeastCost)) return;
      choice->Consider(static_cast<int>(victims->size()), bytes, ahead,
                       cost + kLeastCost);
      victims->push_back({.tape = tape, .storage = i, .how = how});
    };
    if (storage.spill) {
      // The file's copy is good: letting the bytes go costs the way back. Those
      // whose copy ends only now go without being asked for.
      if (storage.spill->WasWritten()) {
        offer(Victim::How::kSpill, bytes * (spill ? spill->cost : 0) / 2);
      }
      continue;
    }
    if (HasRoom(query, storage)) {
      offer(Victim::How::kSpill, bytes * spill->cost);
    } else if (spill) {
      refused = std::max(refused, SizeOf(storage));
    }
    if (!MayBeDropped(storage)) continue;
    if (!choice->MayWin(bytes, ahead, LeastRecipe(*tape, storage))) continue;
    if (const auto recipe = UsableRecipe(*tape, i, query.pressure)) {
      offer(Victim::How::kDrop, recipe->nanoseconds);
    }
  }
  return refused;
}

}  // namespace ebbtide
