// RMM's pool, after what is written of it: smallest fit in the stream's own
// list, then another stream's, then all lists merged, then growth to twice the
// size. Not held to RMM itself.
#include <algorithm>
#include <map>

#include "allocator/replay/holes.h"
#include "allocator/replay/policy.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

constexpr int64_t kAlignment = 256;

class RmmPool : public ReplayPolicy {
 public:
  int64_t Allocate(int64_t size, int stream) override {
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    Holes& mine = holes_[stream];
    if (const auto own = BestHole(&mine, size); own != mine.end()) {
      return Take(&mine, own, &mine, size, stream);
    }
    for (auto& [other, holes] : holes_) {
      const auto hole = BestHole(&holes, size);
      if (hole != holes.end()) return Take(&holes, hole, &mine, size, stream);
    }
    for (auto& [other, holes] : holes_) {
      if (other == stream) continue;
      for (const auto& [address, room] : holes) AddHole(&mine, address, room);
      holes.clear();
      const auto hole = BestHole(&mine, size);
      if (hole != mine.end()) return Take(&mine, hole, &mine, size, stream);
    }
    const int64_t room = std::max(size, reserved());
    const auto hole = mine.emplace(Segment(room), room).first;
    return Take(&mine, hole, &mine, size, stream);
  }

  void Free(int64_t address) override {
    const auto found = taken_.find(address);
    EBBTIDE_CHECK(found != taken_.end());
    AddHole(&holes_[found->second.stream], address, found->second.size);
    taken_.erase(found);
  }

 private:
  int64_t Take(Holes* from, Holes::iterator hole, Holes* rest, int64_t size,
               int stream) {
    const auto [address, room] = *hole;
    from->erase(hole);
    if (room > size) AddHole(rest, address + size, room - size);
    taken_[address] = {size, stream};
    return address;
  }

  struct Taken {
    int64_t size;
    int stream;
  };
  std::map<int, Holes> holes_;  // by stream
  std::map<int64_t, Taken> taken_;
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeRmmPool() {
  return std::make_unique<RmmPool>();
}

}  // namespace ebbtide
