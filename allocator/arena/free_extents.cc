#include "allocator/arena/free_extents.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace ebbtide {
namespace {

void AddUse(StreamUses* uses, const StreamUse& use) {
  for (StreamUse& known : *uses) {
    if (use.stream == StreamUse::kOutside && known.end != use.end) continue;
    if (known.stream != use.stream) continue;
    // Either of two marks of a stream may be the later one.
    if (known.end != use.end) known.end = nullptr;
    return;
  }
  uses->push_back(use);
}

}  // namespace

StreamUses UsesSoFar(StreamOrder* order) {
  StreamUses uses;
  for (int i = 0; i < order->streams(); ++i) {
    uses.push_back({.stream = i});
    if (order->streams() == 1) break;
    const auto mark = order->Mark(i);
    if (mark.ok()) uses.back().end = *mark;
  }
  return uses;
}

bool FreeExtents::AreAlike(const FreeExtent& a, const FreeExtent& b) {
  return a.is_mapped == b.is_mapped &&
         std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), b.uses.end(),
                    [](const StreamUse& x, const StreamUse& y) {
                      return x.stream == y.stream && x.end == y.end;
                    });
}

void FreeExtents::List(int64_t begin, const FreeExtent& extent) {
  if (!extent.is_mapped) return;
  if (!IsSimple(extent)) {
    ++marked_;
    return;
  }
  const auto stream = static_cast<size_t>(extent.uses[0].stream);
  while (stream >= index_.size()) index_.push_back(std::make_unique<Index>());
  const int64_t size = extent.end - begin;
  const int number = ClassOf(size);
  SizeClass& all = index_[stream]->classes[number];
  const std::pair<int64_t, int64_t> listed = {begin, size};
  all.insert(std::lower_bound(all.begin(), all.end(), listed), listed);
  index_[stream]->has[number / 64] |= uint64_t{1} << number % 64;
}

void FreeExtents::Unlist(int64_t begin, const FreeExtent& extent) {
  if (!extent.is_mapped) return;
  if (!IsSimple(extent)) {
    --marked_;
    return;
  }
  Index& index = *index_[extent.uses[0].stream];
  const int64_t size = extent.end - begin;
  const int number = ClassOf(size);
  SizeClass& all = index.classes[number];
  all.erase(std::lower_bound(all.begin(), all.end(), std::pair(begin, size)));
  if (all.empty()) {
    index.has[number / 64] &= ~(uint64_t{1} << number % 64);
  }
}

void FreeExtents::Add(int64_t begin, FreeExtent extent) {
  const auto above = extents_.lower_bound(begin);
  const bool joins_above = above != extents_.end() &&
                           above->first == extent.end &&
                           AreAlike(above->second, extent);
  if (joins_above) {
    Unlist(above->first, above->second);
    extent.end = above->second.end;
  }
  if (above != extents_.begin()) {
    const auto below = std::prev(above);
    if (below->second.end == begin && AreAlike(below->second, extent)) {
      Unlist(below->first, below->second);
      below->second.end = extent.end;
      List(below->first, below->second);
      if (joins_above) extents_.erase(above);
      return;
    }
  }
  List(begin, extent);
  if (joins_above) return SetBegin(above, begin);
  extents_.emplace_hint(above, begin, std::move(extent));
}

StreamUses FreeExtents::Take(int64_t begin, int64_t end) {
  StreamUses uses;
  auto it = std::prev(extents_.upper_bound(begin));
  while (true) {
    const int64_t from = it->first;
    FreeExtent extent = std::move(it->second);
    Unlist(from, extent);
    extents_.erase(it);
    for (const StreamUse& use : extent.uses) AddUse(&uses, use);
    const auto keep = [&](int64_t left, int64_t right) {
      if (left >= right) return;
      FreeExtent rest = extent;
      rest.end = right;
      List(left, rest);
      extents_.emplace(left, std::move(rest));
    };
    keep(from, begin);
    keep(end, extent.end);
    if (extent.end >= end) return uses;
    it = extents_.find(extent.end);
  }
}

void FreeExtents::TakeFront(int64_t begin, int64_t size) {
  const auto it = extents_.find(begin);
  Unlist(begin, it->second);
  if (it->second.end == begin + size) {
    extents_.erase(it);
    return;
  }
  SetBegin(it, begin + size);
  List(begin + size, it->second);
}

std::optional<int64_t> FreeExtents::LowestFit(int64_t size, int stream) const {
  // Extents of the own class may be too small: so many of them are looked at.
  constexpr int kMostLooks = 8;
  if (static_cast<size_t>(stream) >= index_.size()) return std::nullopt;
  const Index& index = *index_[stream];
  const int own = ClassOf(size);
  std::optional<int64_t> lowest;
  int looks = 0;
  for (const auto& [begin, room] : index.classes[own]) {
    if (room >= size) lowest = begin;
    if (lowest || ++looks == kMostLooks) break;
  }
  for (int word = (own + 1) / 64; word < kClasses / 64; ++word) {
    uint64_t has = index.has[word];
    if (word == (own + 1) / 64) has &= ~uint64_t{0} << (own + 1) % 64;
    for (; has != 0; has &= has - 1) {
      const int number = word * 64 + std::countr_zero(has);
      const int64_t begin = index.classes[number].begin()->first;
      if (!lowest || begin < *lowest) lowest = begin;
    }
  }
  return lowest;
}

int FreeExtents::ClassOf(int64_t size) {
  const auto grains = static_cast<uint64_t>(size / kArenaGrain);
  const int power = std::bit_width(grains) - 1;
  const int quarter =
      static_cast<int>(power >= 2 ? grains >> (power - 2) & 3 : 0);
  return 4 * power + quarter;
}

bool FreeExtents::Settle(StreamOrder* order) {
  if (marked_ == 0) return false;
  std::vector<std::pair<int64_t, FreeExtent>> settled;
  for (auto& [begin, extent] : extents_) {
    if (!extent.is_mapped || IsSimple(extent)) continue;
    StreamUses uses;
    for (const StreamUse& use : extent.uses) {
      if (use.end == nullptr || !order->IsOver(use.end)) uses.push_back(use);
    }
    if (uses.size() == extent.uses.size()) continue;
    // Without any use it is for every stream; for its own it is found soonest.
    if (uses.empty()) {
      uses.push_back({.stream = std::max(0, extent.uses[0].stream)});
    }
    settled.push_back({begin, {extent.end, true, std::move(uses)}});
  }
  // Adding one joins it to the next where that still has the same uses.
  for (auto& [begin, extent] : settled) {
    Take(begin, extent.end);
    Add(begin, std::move(extent));
  }
  return !settled.empty();
}

}  // namespace ebbtide
