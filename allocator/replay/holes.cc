#include "allocator/replay/holes.h"

#include <iterator>

namespace ebbtide {

void AddHole(Holes* holes, int64_t address, int64_t size) {
  auto hole = holes->emplace(address, size).first;
  const auto above = std::next(hole);
  if (above != holes->end() && address + size == above->first) {
    hole->second += above->second;
    holes->erase(above);
  }
  if (hole == holes->begin()) return;
  const auto below = std::prev(hole);
  if (below->first + below->second != address) return;
  below->second += hole->second;
  holes->erase(hole);
}

Holes::iterator BestHole(Holes* holes, int64_t size) {
  auto best = holes->end();
  for (auto hole = holes->begin(); hole != holes->end(); ++hole) {
    if (hole->second < size) continue;
    if (best == holes->end() || hole->second < best->second) best = hole;
  }
  return best;
}

}  // namespace ebbtide
