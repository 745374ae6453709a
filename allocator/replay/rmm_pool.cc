// RMM's pool, after what is written of it: smallest fit in the stream's own
// list, then another stream's, then all lists merged, then growth to twice the
// size. Not held to RMM itself.
#include <algorithm>
#include <map>

#include "allocator/holes.h"
#include "allocator/replay/policy.h"

namespace ebbtide {
namespace {

constexpr int64_t kAlignment = 256;

class RmmPool : public ReplayPolicy {
 public:
  int64_t Allocate(int64_t size, int stream) override {
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    Holes& mine = holes_[stream];
    if (const auto own = mine.Best(size)) return Take(&mine, *own, size, &mine);
    for (auto& [other, holes] : holes_) {
      const auto hole = holes.Best(size);
      if (hole) return Take(&holes, *hole, size, &mine);
    }
    for (auto& [other, holes] : holes_) {
      if (other == stream) continue;
      for (const auto& [address, room] : holes.all()) mine.Add({address, room});
      holes = Holes();
      const auto hole = mine.Best(size);
      if (hole) return Take(&mine, *hole, size, &mine);
    }
    const int64_t room = std::max(size, reserved());
    const Hole hole = {Segment(room), room};
    mine.Add(hole);
    return Take(&mine, hole, size, &mine);
  }

 private:
  std::map<int, Holes> holes_;  // by stream
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeRmmPool() {
  return std::make_unique<RmmPool>();
}

}  // namespace ebbtide
