#include "hooks/eviction.h"

#include <algorithm>

#include "hooks/outside.h"
#include "hooks/recipe.h"

namespace ebbtide {
namespace {

// A launch is never free; keeps tiny costs from dominating the score.
constexpr double kLeastCost = 2000;

// Whether relying on the recipe needs bytes to be read now.
bool TakesWitness(const Tape& tape, const Recipe& recipe) {
  for (int op : recipe.ops) {
    const bool none = ForEachRead(
        tape, op, [&](int read) { return !TakesWitness(tape.storages[read]); });
    if (!none) return true;
  }
  return false;
}

}  // namespace

bool IsEvictable(const TapeStorage& storage) {
  return storage.data && storage.bytes >= LeastManaged() && storage.pins == 0 &&
         storage.hooks + storage.dependents > 0 && !storage.captured &&
         storage.data.use_count() == 1 &&
         Device::Get().IsReclaimable(storage.data);
}

void OfferVictims(const std::shared_ptr<Tape>& tape, const Pressure& pressure,
                  double now, std::optional<double> spill_cost,
                  EvictionChoice* choice, std::vector<Victim>* victims) {
  for (int i = 0; i < static_cast<int>(tape->storages.size()); ++i) {
    const TapeStorage& storage = tape->storages[i];
    if (storage.device != pressure.device || !IsEvictable(storage)) continue;
    // What was packed last is needed first, but for what a replay needs now.
    const double until =
        storage.awaited > 0 ? 0 : std::max(0.0, now - storage.needed_at);
    const double ahead = until + kNear * tape->clock + 1;
    const double bytes = static_cast<double>(storage.bytes);
    const auto offer = [&](Victim::How how, double cost) {
      if (!choice->MayWin(bytes, ahead, cost + kLeastCost)) return;
      choice->Consider(static_cast<int>(victims->size()), bytes, ahead,
                       cost + kLeastCost);
      victims->push_back({.tape = tape, .storage = i, .how = how});
    };
    if (storage.spill) {
      // The file's copy is good: letting the bytes go costs the way back.
      if (storage.spill->IsWritten()) {
        offer(Victim::How::kSpill, bytes * spill_cost.value_or(0) / 2);
      }
      continue;
    }
    if (spill_cost) offer(Victim::How::kSpill, bytes * *spill_cost);
    if (storage.external || storage.awaited > 0) continue;
    // No recipe costs less than the ops that wrote the storage.
    double own = kLeastCost;
    for (int writer : storage.writers) own += tape->ops[writer].nanoseconds;
    if (!choice->MayWin(bytes, ahead, own)) continue;
    const auto recipe = FindRecipe(*tape, i);
    // Nothing may be waited for under a lock.
    if (recipe && !(pressure.is_locked && TakesWitness(*tape, *recipe))) {
      offer(Victim::How::kDrop, recipe->nanoseconds);
    }
  }
}

}  // namespace ebbtide
