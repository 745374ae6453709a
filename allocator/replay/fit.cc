// First fit and best fit in one growing arena.
#include <algorithm>
#include <map>

#include "allocator/replay/holes.h"
#include "allocator/replay/policy.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

class Fit : public ReplayPolicy {
 public:
  explicit Fit(bool best) : best_(best) {}

  int64_t Allocate(int64_t size, int stream) override {
    static_cast<void>(stream);  // one arena for all
    auto found = best_ ? BestHole(&holes_, size)
                       : std::find_if(holes_.begin(), holes_.end(),
                                      [size](const auto& hole) {
                                        return hole.second >= size;
                                      });
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
    AddHole(&holes_, address, block->second);
    taken_.erase(block);
  }

 private:
  // A hole of that size at the end, what is free there included.
  Holes::iterator Grow(int64_t size) {
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
  Holes holes_;
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
