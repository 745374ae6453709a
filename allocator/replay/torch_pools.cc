// PyTorch's caching allocator for CUDA, without and with expandable segments.
#include <map>
#include <utility>

#include "allocator/holes.h"
#include "allocator/replay/policy.h"
#include "planner/place_problem.h"

namespace ebbtide {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLeastBlock = 512;
constexpr int64_t kMostSmall = kMiB;
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kLeastOwnSegment = 10 * kMiB;
// Addresses for each stream and pool: more than any trace asks for.
constexpr int64_t kRange = int64_t{1} << 52;

struct Pool {
  Holes free;
  int64_t end = -1;  // end of its range, with expandable segments
};

class TorchPools : public ReplayPolicy {
 public:
  explicit TorchPools(bool expandable) : expandable_(expandable) {}

  int64_t Allocate(int64_t size, int stream) override {
    size = AlignUp(size, kLeastBlock);
    const bool small = size <= kMostSmall;
    Pool& pool = pools_[{stream, small}];
    const Hole found = expandable_ ? FindInRange(&pool, size, small)
                                   : FindInSegments(&pool, size, small);
    const int64_t rest = found.size - size;
    const bool splits =
        small || expandable_ ? rest >= kLeastBlock : rest > kMostSmall;
    return Take(&pool.free, found, splits ? size : found.size, &pool.free);
  }

 private:
  Hole FindInSegments(Pool* pool, int64_t size, bool small) {
    if (const auto found = pool->free.Best(size)) return *found;
    int64_t room = AlignUp(size, kSmallSegment);
    if (small) room = kSmallSegment;
    if (!small && size < kLeastOwnSegment) room = kLargeSegment;
    const Hole segment = {Segment(room), room};
    pool->free.Add(segment);
    return segment;
  }

  // The hole at the end of all that is mapped counts as large as it can grow,
  // so any other that is large enough comes first.
  Hole FindInRange(Pool* pool, int64_t size, bool small) {
    if (pool->end < 0) pool->end = ranges_++ * kRange;
    Hole last = pool->free.EndingAt(pool->end);
    if (last.size > 0) pool->free.TakeFront(last, last.size);
    const auto other = pool->free.Best(size);
    const int64_t page = small ? kSmallSegment : kLargeSegment;
    while (!other && last.size < size) {
      Reserve(page);
      last.size += page;
    }
    pool->end = last.end();
    pool->free.Add(last);
    return other ? *other : last;
  }

  const bool expandable_;
  int64_t ranges_ = 0;
  std::map<std::pair<int, bool>, Pool> pools_;  // by stream and small
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeTorchPools(bool expandable) {
  return std::make_unique<TorchPools>(expandable);
}

}  // namespace ebbtide
