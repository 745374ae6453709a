// First fit and best fit in one growing arena.
#include <optional>

#include "allocator/holes.h"
#include "allocator/replay/policy.h"

namespace ebbtide {
namespace {

class Fit : public ReplayPolicy {
 public:
  explicit Fit(bool best) : best_(best) {}

  int64_t Allocate(int64_t size, int /*stream*/) override {
    auto found = Find(size);
    if (!found) {
      // A hole of that size at the end, what is free there included.
      const int64_t top = reserved();
      const int64_t more = size - holes_.EndingAt(top).size;
      Reserve(more);
      holes_.Add({.begin = top, .size = more});
      found = Find(size);
    }
    return Take(&holes_, *found, size, &holes_);
  }

 private:
  std::optional<Hole> Find(int64_t size) const {
    return best_ ? holes_.Best(size) : holes_.Lowest(size);
  }

  const bool best_;
  Holes holes_;
};

}  // namespace

std::unique_ptr<ReplayPolicy> MakeReplayPolicy(absl::string_view name) {
  if (name == "firstfit") return std::make_unique<Fit>(false);
  if (name == "bestfit") return std::make_unique<Fit>(true);
  if (name == "native") return MakeTorchPools(false);
  if (name == "expandable") return MakeTorchPools(true);
  if (name == "rmm-pool") return MakeRmmPool();
  return nullptr;
}

}  // namespace ebbtide
