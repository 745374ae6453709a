#include "allocator/arena.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

// Smaller pieces are not worth keeping: no request would take them.
constexpr Bytes kSmallestRetained{64 << 10};

}  // namespace

Arena::Arena(Bytes cap, const ArenaSystem& system)
    : pages_(system), cap_(cap) {}

Arena::~Arena() { Shrink(Bytes{0}); }

void* Arena::Allocate(Bytes size) {
  const Bytes asked = RoundUpToPage(size);
  std::lock_guard lock(mutex_);
  try {
    // Everything that may throw comes before the state changes.
    live_.reserve(live_.size() + 1);
    BlockSet::node_type node = TakeFit(asked);
    if (!node && stats_.mapped + asked > cap_) {
      node = TakeAndSplit(asked);
      if (!node && stats_.retained >= asked && MergeTouching()) {
        node = TakeFit(asked);
        if (!node) node = TakeAndSplit(asked);
      }
      if (!node) node = Stitch(asked);
    }
    if (!node) {
      Shrink(cap_ - asked);
      node = Map(asked);
    }
    if (!node) {
      Shrink(Bytes{0});
      node = Map(asked);
    }
    if (!node) return nullptr;

    const Block block = node.value();
    stats_.live += block.size;
    stats_.slack += block.size - asked;
    live_.emplace(block.address, Live{std::move(node), asked});
    Shrink(cap_);
    stats_.high_water = std::max(stats_.high_water, stats_.mapped);
    return block.address;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Arena::Free(void* block) {
  std::lock_guard lock(mutex_);
  const auto it = live_.find(block);
  if (it == live_.end()) return false;
  const Bytes size = it->second.node.value().size;
  stats_.live -= size;
  stats_.slack -= size - it->second.asked;
  stats_.retained += size;
  retained_.insert(std::move(it->second.node));
  live_.erase(it);
  Shrink(cap_);
  return true;
}

Bytes Arena::SizeOf(const void* block) const {
  std::lock_guard lock(mutex_);
  const auto it = live_.find(block);
  return it == live_.end() ? Bytes{0} : it->second.asked;
}

void Arena::SetCap(Bytes cap) {
  std::lock_guard lock(mutex_);
  cap_ = cap;
  Shrink(cap_);
}

ArenaBytes Arena::Stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

// The smallest retained block with at most 1/8 of slack, or an empty node.
Arena::BlockSet::node_type Arena::TakeFit(Bytes size) {
  const auto it = retained_.lower_bound({size, nullptr});
  if (it == retained_.end()) return {};
  if (it->size > size + Bytes{Count(size) / 8}) return {};
  stats_.retained -= it->size;
  return retained_.extract(it);
}

// Keeps pages that are already resident where a new mapping would only replace
// them: the front of the smallest larger block, whose rest stays retained.
Arena::BlockSet::node_type Arena::TakeAndSplit(Bytes size) {
  const auto it = retained_.lower_bound({size, nullptr});
  if (it == retained_.end()) return {};
  const Block rest = {it->size - size, it->address + Count(size)};
  if (rest.size >= kSmallestRetained) {
    retained_.insert(rest);
  } else {
    if (!Unmap(rest.address, rest.size)) return {};
    stats_.retained -= rest.size;
  }
  stats_.retained -= size;
  BlockSet::node_type node = retained_.extract(it);
  node.value().size = size;
  return node;
}

// Makes one of retained blocks that touch; false where none do. Not done when
// they are freed: requests come again in the sizes that they had.
bool Arena::MergeTouching() {
  std::vector<BlockSet::node_type> nodes;
  nodes.reserve(retained_.size());  // nothing after this throws
  while (!retained_.empty()) {
    nodes.push_back(retained_.extract(retained_.begin()));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
    return a.value().address < b.value().address;
  });
  const size_t before = nodes.size();
  for (size_t i = 1, last = 0; i < before; ++i) {
    Block& block = nodes[last].value();
    if (block.address + Count(block.size) != nodes[i].value().address) {
      last = i;
      continue;
    }
    block.size += nodes[i].value().size;
    nodes[i] = BlockSet::node_type();
  }
  for (BlockSet::node_type& node : nodes) {
    if (node) retained_.insert(std::move(node));
  }
  return retained_.size() < before;
}

// A new block in which retained pages take the place of as many as there are:
// of the smallest block with enough of them, or of the largest ones.
Arena::BlockSet::node_type Arena::Stitch(Bytes size) {
  if (retained_.empty() || !pages_.MayMove()) return {};
  BlockSet::node_type stitched = Map(size);
  if (!stitched) return {};
  Bytes done{};
  while (done < size && !retained_.empty()) {
    auto it = retained_.lower_bound({size - done, nullptr});
    if (it == retained_.end()) --it;
    BlockSet::node_type node = retained_.extract(it);
    Block& block = node.value();
    const Bytes wanted = std::min(block.size, size - done);
    const Bytes moved = pages_.Move(block.address, wanted,
                                    stitched.value().address + Count(done));
    done += moved;
    stats_.mapped -= moved;
    stats_.retained -= moved;
    block.size -= moved;
    block.address += Count(moved);
    if (block.size > Bytes{0}) retained_.insert(std::move(node));
    if (moved < wanted) break;
  }
  return stitched;
}

// A new block of exactly `size`, or an empty node.
Arena::BlockSet::node_type Arena::Map(Bytes size) {
  BlockSet one;
  one.insert({size, nullptr});
  BlockSet::node_type node = one.extract(one.begin());
  node.value().address = pages_.Map(size);
  if (node.value().address == nullptr) return {};
  stats_.mapped += size;
  return node;
}

// Gives `excess`, or more, of the largest retained block back. False if there
// is none, or the system cannot unmap it.
bool Arena::Release(Bytes excess) {
  if (retained_.empty()) return false;
  BlockSet::node_type node = retained_.extract(std::prev(retained_.end()));
  Block& block = node.value();
  // Not page by page, nor down to what no request takes.
  Bytes cut = std::max(RoundUpToPage(excess), kSmallestRetained);
  if (block.size < cut + kSmallestRetained) cut = block.size;
  const bool released = Unmap(block.address + Count(block.size - cut), cut);
  if (released) {
    block.size -= cut;
    stats_.retained -= cut;
  }
  if (block.size > Bytes{0}) retained_.insert(std::move(node));
  return released;
}

bool Arena::Unmap(char* address, Bytes size) {
  if (!pages_.Unmap(address, size)) return false;
  stats_.mapped -= size;
  return true;
}

void Arena::CutSlack() {
  if (stats_.slack == Bytes{0}) return;
  for (auto& [address, live] : live_) {
    Block& block = live.node.value();
    const Bytes tail = block.size - live.asked;
    if (tail == Bytes{0}) continue;
    if (!Unmap(block.address + Count(live.asked), tail)) continue;
    block.size = live.asked;
    stats_.live -= tail;
    stats_.slack -= tail;
  }
}

void Arena::Shrink(Bytes target) {
  while (stats_.mapped > target && Release(stats_.mapped - target)) {
  }
  if (stats_.mapped > target) CutSlack();
}

}  // namespace ebbtide
