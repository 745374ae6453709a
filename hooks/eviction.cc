#include "hooks/eviction.h"

#include <algorithm>
#include <cmath>

#include "allocator/torch_cpu_allocator.h"
#include "hooks/recovery.h"

namespace ebbtide {
namespace {

// A launch is never free; keeps tiny costs from dominating the score.
constexpr double kLeastCost = 2000;

}  // namespace

bool IsEvictable(const TapeStorage& storage) {
  return storage.data && storage.bytes >= LeastManaged() && storage.pins == 0 &&
         storage.hooks + storage.dependents > 0 && !storage.captured &&
         storage.data.use_count() == 1 && IsFromOurAllocator(storage.data);
}

std::optional<Victim> ChooseVictim(Tape* tape, double now,
                                   std::optional<double> spill_cost) {
  std::optional<Victim> best;
  for (int i = 0; i < static_cast<int>(tape->storages.size()); ++i) {
    const TapeStorage& storage = tape->storages[i];
    if (!IsEvictable(storage)) continue;
    // What was packed last is needed first.
    const double distance =
        std::max(0.0, now - storage.packed_at) + 0.02 * tape->clock + 1;
    const double bytes = static_cast<double>(storage.bytes);
    const auto consider = [&](Victim::How how, double cost) {
      const double score = bytes * distance / (cost + kLeastCost);
      if (!best || score > best->score) {
        best = Victim{.tape = tape, .storage = i, .how = how, .score = score};
      }
    };
    if (storage.spill) {
      // The file's copy is good: letting the bytes go costs the way back.
      if (storage.spill->IsWritten()) {
        consider(Victim::How::kSpill, bytes * spill_cost.value_or(0) / 2);
      }
      continue;
    }
    if (spill_cost) consider(Victim::How::kSpill, bytes * *spill_cost);
    if (storage.external) continue;
    // No recipe costs less than the ops that wrote the storage.
    double own = kLeastCost;
    for (int writer : storage.writers) own += tape->ops[writer].nanoseconds;
    if (best && bytes * distance / own <= best->score) continue;
    if (const auto recipe = FindRecipe(*tape, i)) {
      consider(Victim::How::kDrop, recipe->nanoseconds);
    }
  }
  return best;
}

}  // namespace ebbtide
