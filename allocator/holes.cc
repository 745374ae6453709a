#include "allocator/holes.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace ebbtide {

void Holes::Add(Hole hole) {
  if (hole.size == 0) return;
  auto above = sizes_.lower_bound(hole.begin);
  if (above != sizes_.end() && above->first == hole.end()) {
    hole.size += above->second;
    above = Erase(above);
  }
  const Hole below = EndingAt(hole.begin);
  if (below.size > 0) {
    Erase(std::prev(above));
    hole = {below.begin, below.size + hole.size};
  }
  try {
    sizes_.emplace(hole.begin, hole.size);
    by_size_.emplace(hole.size, hole.begin);
  } catch (const std::bad_alloc&) {
    sizes_.erase(hole.begin);
  }
}

void Holes::TakeFront(const Hole& hole, int64_t size) {
  auto sized = by_size_.extract({hole.size, hole.begin});
  auto placed = sizes_.extract(hole.begin);
  if (hole.size == size) return;
  sized.value() = {hole.size - size, hole.begin + size};
  placed.key() += size;
  placed.mapped() -= size;
  by_size_.insert(std::move(sized));
  sizes_.insert(std::move(placed));
}

std::optional<Hole> Holes::Best(int64_t size) const {
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) return std::nullopt;
  return Hole{.begin = best->second, .size = best->first};
}

std::optional<Hole> Holes::Lowest(int64_t size) const {
  const auto lowest =
      std::find_if(sizes_.begin(), sizes_.end(),
                   [size](const auto& hole) { return hole.second >= size; });
  if (lowest == sizes_.end()) return std::nullopt;
  return Hole{.begin = lowest->first, .size = lowest->second};
}

Hole Holes::EndingAt(int64_t end) const {
  const auto above = sizes_.lower_bound(end);
  if (above == sizes_.begin()) return {.begin = end};
  const auto& [begin, size] = *std::prev(above);
  if (begin + size != end) return {.begin = end};
  return {.begin = begin, .size = size};
}

int64_t Holes::Largest() const {
  return by_size_.empty() ? 0 : by_size_.rbegin()->first;
}

Holes::Sizes::iterator Holes::Erase(Sizes::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  return sizes_.erase(hole);
}

}  // namespace ebbtide
