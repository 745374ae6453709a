// Messages about the floor: no plan can hold the budget, or none was found.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hooks/device.h"
#include "hooks/recipe.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "planner/least_peak.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

std::string WhoNeeds(const LeastPeak& least) {
  return absl::StrCat(least.name, " needs it, ", FormatSize(least.other),
                      " of that not for saved tensors");
}

}  // namespace

void Runtime::TellFloor(SignatureBook* book) {
  // Steady pairs have no ops. An untried op may still prove recomputable.
  const auto is_unknown = [this](const TapeOp& op) {
    return !op.foreign && !op.outputs.empty() && IsToBeTried(op);
  };
  if (!complete_ || tape_->ops.empty() ||
      std::any_of(tape_->ops.begin(), tape_->ops.end(), is_unknown)) {
    return;
  }
  if (!book->failure.empty() && !std::exchange(book->failure_told, true)) {
    Say(book->failure);
  }
  if (std::exchange(book->floor_told, true)) return;
  // The share of weights in it is not fixed.
  if (weights_.is_on()) return;
  const Profile profile = BuildProfile(*tape_, watch_, nullptr).profile;
  const LeastPeak keeping = FindLeastPeak(profile, /*offload=*/false);
  const LeastPeak spilling = FindLeastPeak(profile, /*offload=*/true);
  const LeastPeak& floor = residency_.CanSpill() ? spilling : keeping;
  if (floor.bytes <= budget()) return;
  // Steps of other shapes have other floors, much the same to people.
  if (Count(floor.bytes) <=
      Count(highest_floor_) + Count(highest_floor_) / 16) {
    return;
  }
  highest_floor_ = floor.bytes;
  const TierWords& words = Device::Get().tier_words();
  const std::string without =
      residency_.CanSpill() ? "" : absl::StrCat(" without ", words.moving);
  floor_ =
      absl::StrCat("the budget is below the floor of ", FormatSize(floor.bytes),
                   without, ": ", WhoNeeds(floor));
  std::string advice = "a smaller batch lowers it";
  if (spilling.bytes < floor.bytes) {
    advice = absl::StrCat(words.moving, " (", words.allow, ") lowers it to ",
                          FormatSize(spilling.bytes), ", ", advice, " too");
  }
  Say(absl::StrCat(floor_, "; ", advice,
                   "; training goes on above the budget"));
}

std::string Runtime::KnownFloor() {
  // A thread that runs out of memory must not wait for one that recomputes.
  const auto lock = RuntimeLock::TryAcquire(std::chrono::milliseconds(200));
  return lock.owns_lock() ? FloorText() : "";
}

std::string Runtime::FloorText() const {
  return floor_.empty() ? least_peak_ : floor_;
}

void Runtime::NoteLeastPeak(const Profile& profile) {
  const LeastPeak least = FindLeastPeak(profile, residency_.CanSpill());
  least_peak_ =
      absl::StrCat("no plan for the last recorded step takes less than ",
                   FormatSize(least.bytes), ": ", WhoNeeds(least));
}

std::vector<std::string> Runtime::MakersOf(
    absl::Span<const void* const> blocks) {
  std::vector<std::string> makers(blocks.size());
  const auto lock = RuntimeLock::TryAcquire(std::chrono::milliseconds(200));
  if (!lock.owns_lock() || tape_ == nullptr) return makers;
  for (const TapeStorage& storage : tape_->storages) {
    const c10::StorageImpl* const here =
        storage.data                 ? storage.data.unsafeGetStorageImpl()
        : storage.identity.expired() ? nullptr
                                     : storage.identity._unsafe_get_target();
    if (here == nullptr) continue;
    const void* const block = here->data_ptr().get();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (block != blocks[i]) continue;
      makers[i] = !storage.writers.empty()
                      ? tape_->ops[storage.writers.front()].info->name
                  : storage.parameter ? "parameter"
                                      : "input";
    }
  }
  return makers;
}

void Runtime::NoteKept() {
  if (!settings_.budget || Device::Get().StepPeak(device_) <= budget()) {
    return;
  }
  if (IsUnrecorded()) return;
  for (int i = 0; i < static_cast<int>(tape_->storages.size()); ++i) {
    const TapeStorage& storage = tape_->storages[i];
    if (storage.hooks == 0 || storage.external || storage.owed ||
        storage.bytes < LeastManaged()) {
      continue;
    }
    const std::optional<NoRecipe> none = WhyNoRecipe(*tape_, i);
    if (!none && IsEvictable(storage)) continue;
    std::string why = "held by the script";
    if (none) {
      const std::string op =
          none->op < 0 ? "input" : tape_->ops[none->op].info->name;
      why = absl::StrCat(op, " ", none->reason);
    }
    report_.not_replayable[why] += storage.bytes;
  }
}

// Returns why the budget was not held or no plan was found.
std::string Runtime::WhyNotBetter() const {
  const SignatureBook* book = books_.Find(signature_);
  std::vector<std::string> reasons = {residency_.spill_failure(), floor_,
                                      book == nullptr ? "" : book->failure};
  if (report_.out_of_memory && Count(report_.out_of_memory->request) > 0) {
    reasons.push_back(absl::StrCat("no memory was found for ",
                                   FormatSize(report_.out_of_memory->request)));
  }
  std::erase(reasons, "");
  if (reasons.empty() && IsUntouched(report_)) {
    return "nothing could be evicted";
  }
  return absl::StrJoin(reasons, "; ");
}

}  // namespace ebbtide
