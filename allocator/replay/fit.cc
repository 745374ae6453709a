// First fit and best fit in one growing arena.
#include <algorithm>
#include <map>

#include "allocator/replay/policy.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

class Fit : public ReplayPolicy {
 public:
  explicit Fit(bool best) : best_(best) {}

  int64_t Allocate(int64_t size, int stream) override {
    static_cast<void>(stream);  // one arena for all
    auto found = holes_.end();
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < size) continue;
      if (found != holes_.end() && hole->second >= found->second) continue;
      found = hole;
      if (!best_) break;
    }
    if (found == holes_.end()) found = Grow(size);
    const auto [address, room] = *found;
    holes_.erase(found);
    if (room > size) holes_[address + size] = room - size;
    taken_[address] = size;
    return address;
  }

  void Free(int64_t address) override {
    const auto block = taken_.find(address);
    EBBTIDE_CHECK(block != taken_.end());
    auto hole = holes_.emplace(address, block->second).first;
    taken_.erase(block);
    const auto above = std::next(hole);
    if (above != holes_.end() && address + hole->second == above->first) {
      hole->second += above->second;
      holes_.erase(above);
    }
    if (hole == holes_.begin()) return;
    const auto below = std::prev(hole);
    if (below->first + below->second != address) return;
    below->second += hole->second;
    holes_.erase(hole);
  }

 private:
  // A hole of that size at the end, what is free there included.
  std::map<int64_t, int64_t>::iterator Grow(int64_t size) {
    const int64_t top = reserved();
    auto last = holes_.empty() ? holes_.end() : std::prev(holes_.end());
    if (last == holes_.end() || last->first + last->second != top) {
      last = holes_.emplace(top, 0).first;
    }
    Reserve(size - last->second);
    last->second = size;
    return last;
  }

  const bool best_;
  std::map<int64_t, int64_t> holes_;  // sizes by address
  std::map<int64_t, int64_t> taken_;
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeFirstFit() {
  return std::make_unique<Fit>(false);
}

std::unique_ptr<ReplayPolicy> MakeBestFit() {
  return std::make_unique<Fit>(true);
}

std::unique_ptr<ReplayPolicy> MakeReplayPolicy(absl::string_view name) {
  if (name == "firstfit") return MakeFirstFit();
  if (name == "bestfit") return MakeBestFit();
  if (name == "native") return MakeTorchNative();
  if (name == "expandable") return MakeTorchExpandable();
  if (name == "rmm-pool") return MakeRmmPool();
  return nullptr;
}

}  // namespace ebbtide
