#include "planner/cycle_validate_rules.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "planner/chain_validate.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

}  // namespace

bool CycleRules::Computes(const ChainAction& a) {
  return a.what == Do::kForward || a.what == Do::kLoss ||
         a.what == Do::kBackward;
}

std::string CycleRules::NameOf(const ChainAction& a) {
  constexpr const char* kNames[] = {"x", "xb", "weight", "grad", "state"};
  return absl::StrCat(kNames[static_cast<int>(a.item)], "[", a.stage, "]");
}

absl::Status CycleRules::Check() const {
  if (auto s = CheckIndices(); !s.ok()) return s;
  if (auto s = CheckChainRules(); !s.ok()) return s;
  return CheckHost();
}

absl::Status CycleRules::CheckIndices() const {
  const int weights = static_cast<int>(c_.weights.size());
  for (int k = 0; k < size_; ++k) {
    const ChainAction& a = actions_[k];
    const bool weight =
        a.what == Do::kUpdate || (!Computes(a) && IsWeight(a.item));
    if (weight && (a.stage < 0 || a.stage >= weights)) {
      return BrokenRule(k, "expected a weight below ", weights, ", got ",
                        a.stage);
    }
  }
  return absl::OkStatus();
}

// Without its weights it is a plan for a chain.
absl::Status CycleRules::CheckChainRules() const {
  Chain chain = c_;
  chain.weights.clear();
  chain.host = Bytes{-1};
  std::vector<ChainAction> rest;
  for (const ChainAction& a : actions_) {
    const bool weight = a.what == Do::kUpdate || IsWeight(a.item);
    if (Computes(a) || !weight) rest.push_back(a);
  }
  const Bytes enough{std::numeric_limits<int64_t>::max() / 4};
  const auto verdict = ValidateChain(chain, rest, enough);
  if (verdict.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("without its weights: ", verdict.status().message()));
}

absl::Status CycleRules::CheckHost() const {
  std::set<std::pair<Item, int>> moved;
  for (const ChainAction& a : actions_) {
    if (a.what == Do::kUpdate) {
      for (Item item : {Item::kWeight, Item::kGrad, Item::kState}) {
        moved.insert({item, a.stage});
      }
    } else if (a.what == Do::kOffload || a.what == Do::kRestore) {
      moved.insert({a.item, a.stage});
    }
  }
  Bytes sum{};
  for (const auto& [item, index] : moved) sum += BytesOf(item, index);
  if (c_.host < Bytes{} || sum <= c_.host) return absl::OkStatus();
  return BrokenRule(size_, "the host would hold ", Count(sum), ", its room is ",
                    Count(c_.host));
}

bool CycleRules::HasStage(int weight, int stage) const {
  const std::vector<int>& stages = c_.weights[weight].stages;
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

bool CycleRules::IsFirst(int weight, const ChainAction& a) const {
  const std::vector<int>& stages = c_.weights[weight].stages;
  return a.what == Do::kBackward &&
         a.stage == *std::max_element(stages.begin(), stages.end());
}

bool CycleRules::IsLast(int weight, const ChainAction& a) const {
  const std::vector<int>& stages = c_.weights[weight].stages;
  return a.what == Do::kBackward &&
         a.stage == *std::min_element(stages.begin(), stages.end());
}

bool CycleRules::IsUpdatedOnHost(int weight) const {
  return std::any_of(actions_.begin(), actions_.end(),
                     [weight](const ChainAction& a) {
                       return a.what == Do::kUpdate && a.stage == weight;
                     });
}

bool CycleRules::Reads(const ChainAction& a, Item item, int index) const {
  if (!Computes(a)) return false;
  if (!IsWeight(item)) {
    if (a.what == Do::kBackward && item == Item::kXb && a.stage + 1 == index) {
      return true;
    }
    return (a.what == Do::kLoss ? stages_ : a.stage) == index;
  }
  if (a.what == Do::kLoss || !HasStage(index, a.stage)) return false;
  if (item == Item::kWeight) return true;
  if (item == Item::kGrad) return a.what == Do::kBackward;
  return Writes(a, index);
}

bool CycleRules::Writes(const ChainAction& a, int weight) const {
  return IsLast(weight, a) && !IsUpdatedOnHost(weight);
}

bool CycleRules::IsReadFrom(int k, Item item, int index) const {
  for (int n = 0; n < size_; ++n) {
    const ChainAction& a = actions_[(k + n) % size_];
    const bool same = a.item == item && a.stage == index;
    if (same && (a.what == Do::kRestore || a.what == Do::kFree)) return false;
    if (item == Item::kGrad && IsFirst(index, a)) return false;
    if (Reads(a, item, index)) return true;
    // x and xb do not last from step to step.
    if (!IsWeight(item) && k + n + 1 == size_) return false;
  }
  return false;
}

Bytes CycleRules::BytesOf(Item item, int index) const {
  switch (item) {
    case Item::kX:
      return c_.x[index];
    case Item::kWeight:
      return c_.weights[index].bytes;
    case Item::kGrad:
      return c_.weights[index].grad;
    case Item::kState:
      return c_.weights[index].state;
    case Item::kXb:
      break;
  }
  // Only what is saved once in a step is moved.
  for (const ChainAction& a : actions_) {
    if (a.what == Do::kForward && a.stage + 1 == index && a.save > 0) {
      return SavingWays(c_, a.stage)[a.save - 1].xb;
    }
  }
  return Bytes{};
}

Time CycleRules::Busy(Do what, double bandwidth) const {
  Bytes sum{};
  for (const ChainAction& a : actions_) {
    if (a.what == what) sum += BytesOf(a.item, a.stage);
  }
  return sum > Bytes{} ? static_cast<double>(Count(sum)) / bandwidth : 0;
}

Time CycleRules::LeastTime() const {
  Time updates = 0;
  for (int w = 0; w < static_cast<int>(c_.weights.size()); ++w) {
    if (IsUpdatedOnHost(w)) updates += c_.weights[w].host_update;
  }
  return std::max(
      {updates, Busy(Do::kOffload, c_.d2h), Busy(Do::kRestore, c_.h2d)});
}

}  // namespace ebbtide
