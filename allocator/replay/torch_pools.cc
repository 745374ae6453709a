// PyTorch's caching allocator for CUDA, without and with expandable segments.
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "allocator/replay/policy.h"
#include "planner/check.h"
#include "planner/place_problem.h"

namespace ebbtide {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLeastBlock = 512;
constexpr int64_t kMostSmall = kMiB;
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kLeastOwnSegment = 10 * kMiB;
// Of addresses for each stream and pool: more than any trace asks for.
constexpr int64_t kRange = int64_t{1} << 52;

struct Block {
  int64_t address = 0;
  int64_t size = 0;
  bool taken = false;
};
// In order of address; a segment, or all that is mapped of a range.
using Blocks = std::list<Block>;
using Place = Blocks::iterator;

struct Pool {
  std::map<std::pair<int64_t, int64_t>, std::pair<Blocks*, Place>> free;
  std::list<Blocks> segments;
};
using FreeBlock = decltype(Pool::free)::iterator;

class TorchPools : public ReplayPolicy {
 public:
  explicit TorchPools(bool expandable) : expandable_(expandable) {}

  int64_t Allocate(int64_t size, int stream) override {
    size = AlignUp(size, kLeastBlock);
    const bool small = size <= kMostSmall;
    Pool& pool = pools_[{stream, small}];
    FreeBlock found = Find(&pool, size);
    if (found == pool.free.end()) {
      found = expandable_ ? Expand(&pool, size, small)
                          : AddSegment(&pool, size, small);
    }
    const auto [segment, block] = found->second;
    pool.free.erase(found);
    const int64_t rest = block->size - size;
    const bool splits =
        small || expandable_ ? rest >= kLeastBlock : rest > kMostSmall;
    if (splits) {
      block->size = size;
      PutBack(
          &pool, segment,
          segment->insert(std::next(block),
                          {.address = block->address + size, .size = rest}));
    }
    block->taken = true;
    taken_[block->address] = {&pool, segment, block};
    return block->address;
  }

  void Free(int64_t address) override {
    const auto found = taken_.find(address);
    EBBTIDE_CHECK(found != taken_.end());
    auto [pool, segment, block] = found->second;
    taken_.erase(found);
    block->taken = false;
    const Place above = std::next(block);
    if (above != segment->end() && !above->taken) {
      pool->free.erase({above->size, above->address});
      block->size += above->size;
      segment->erase(above);
    }
    if (block != segment->begin() && !std::prev(block)->taken) {
      const Place below = std::prev(block);
      pool->free.erase({below->size, below->address});
      below->size += block->size;
      segment->erase(block);
      block = below;
    }
    PutBack(pool, segment, block);
  }

 private:
  static FreeBlock PutBack(Pool* pool, Blocks* segment, Place block) {
    return pool->free
        .emplace(std::pair(block->size, block->address),
                 std::pair(segment, block))
        .first;
  }

  // The smallest that is large enough. Of a block that can still grow its size
  // is what it can grow to, so any other comes first.
  FreeBlock Find(Pool* pool, int64_t size) const {
    auto found = pool->free.lower_bound({size, 0});
    if (!expandable_ || found == pool->free.end()) return found;
    const auto& [segment, block] = found->second;
    const auto next = std::next(found);
    const bool grows = std::next(block) == segment->end();
    return grows && next != pool->free.end() ? next : found;
  }

  FreeBlock AddSegment(Pool* pool, int64_t size, bool small) {
    int64_t room = AlignUp(size, kSmallSegment);
    if (small) room = kSmallSegment;
    if (!small && size < kLeastOwnSegment) room = kLargeSegment;
    Blocks& segment = pool->segments.emplace_back();
    segment.push_back({.address = Segment(room), .size = room});
    return PutBack(pool, &segment, segment.begin());
  }

  FreeBlock Expand(Pool* pool, int64_t size, bool small) {
    if (pool->segments.empty()) {
      pool->segments.emplace_back();
      bases_[pool] = static_cast<int64_t>(bases_.size()) * kRange;
    }
    Blocks& segment = pool->segments.front();
    int64_t end = bases_[pool];
    if (!segment.empty()) end = segment.back().address + segment.back().size;
    if (segment.empty() || segment.back().taken) {
      segment.push_back({.address = end, .size = 0});
    } else {
      pool->free.erase({segment.back().size, segment.back().address});
    }
    Block& last = segment.back();
    const int64_t page = small ? kSmallSegment : kLargeSegment;
    const int64_t mapped = AlignUp(size - last.size, page);
    for (int64_t k = 0; k < mapped; k += page) Reserve(page);
    last.size += mapped;
    return PutBack(pool, &segment, std::prev(segment.end()));
  }

  struct Taken {
    Pool* pool;
    Blocks* segment;
    Place block;
  };

  const bool expandable_;
  std::map<std::pair<int, bool>, Pool> pools_;  // by stream and small
  std::map<const Pool*, int64_t> bases_;
  std::map<int64_t, Taken> taken_;
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeTorchNative() {
  return std::make_unique<TorchPools>(false);
}

std::unique_ptr<ReplayPolicy> MakeTorchExpandable() {
  return std::make_unique<TorchPools>(true);
}

}  // namespace ebbtide
