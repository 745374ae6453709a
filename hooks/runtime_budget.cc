// Budget changes by the program, and its questions about other budgets.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hooks/busy.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

// Those of the kind in use that have a budget.
std::vector<int> BoundDevices() {
  std::vector<int> bound;
  for (int i = 0; i < Device::Get().count(); ++i) {
    if (Device::Get().ledger(i).budget() != kNoBudget) bound.push_back(i);
  }
  return bound;
}

std::string NameOfDevice(int index) {
  if (Device::Get().type() == c10::DeviceType::CPU) return "cpu";
  return absl::StrCat("cuda:", index);
}

const Amount* AmountFor(const std::vector<DeviceBudget>& budgets, int index) {
  if (Device::Get().type() == c10::DeviceType::CUDA) {
    return AmountForCuda(budgets, index);
  }
  for (const DeviceBudget& budget : budgets) {
    if (budget.device.empty() || budget.device == "cpu") return &budget.amount;
  }
  return nullptr;
}

}  // namespace

std::string Runtime::Budgets() {
  const RuntimeLock lock;
  std::vector<std::string> budgets;
  for (const int i : BoundDevices()) {
    budgets.push_back(absl::StrCat(
        NameOfDevice(i), "=", Count(Device::Get().ledger(i).budget()), "B"));
  }
  return absl::StrJoin(budgets, ",");
}

Bytes Runtime::RoomLeft() {
  const RuntimeLock lock;
  const Ledger& ledger = Device::Get().ledger(Device::Get().CurrentIndex());
  if (state_ == State::kOff || ledger.budget() == kNoBudget) return kNoBudget;
  return ledger.budget() - ledger.live();
}

absl::Status Runtime::ChangeBudgets(const std::string& text) {
  const auto budgets = ParseBudget(text);
  if (!budgets.ok()) return budgets.status();
  const RuntimeLock lock;
  const Busy busy;
  if (state_ == State::kOff) {
    return absl::FailedPreconditionError(
        absl::StrCat("ebbtide is off: ", off_because_));
  }
  if (!settings_.budget) {
    return absl::FailedPreconditionError(
        "this program was started without EBBTIDE_BUDGET, and is only watched");
  }
  if (may_leave_) {
    return absl::FailedPreconditionError(
        "whose budget it would be is not known before the first step: it is "
        "that of the CUDA devices if one is used");
  }
  std::vector<std::pair<int, Bytes>> changes;
  for (const int i : BoundDevices()) {
    const Amount* const amount = AmountFor(*budgets, i);
    if (amount == nullptr) continue;
    const Device::Room room = Device::Get().RoomOf(i);
    changes.emplace_back(i, Resolve(*amount, room.total, room.free));
  }
  if (changes.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        text, ": no such device has a budget here; ", Budgets(), " is held"));
  }
  for (const auto& [index, budget] : changes) {
    if (Device::Get().ledger(index).budget() == budget) continue;
    Device::Get().SetBudget(index, budget);
    // The peak so far was within the former budget.
    Device::Get().ResetPeak(index);
    if (index == device_) AdaptTo(budget);
  }
  return absl::OkStatus();
}

// Adapts to a budget: results found for another one are discarded.
void Runtime::AdaptTo(Bytes budget) {
  report_.largest_budget =
      std::max(report_.largest_budget, settings_.budget.value_or(Bytes{-1}));
  settings_.budget = budget;
  RunLog::Global().SetBudget(budget);
  planning_.Clear();
  for (auto& [signature, book] : books_.entries()) {
    book.DiscardPlans();
    book.floor_told = book.failure_told = false;
  }
  floor_.clear();
  highest_floor_ = Bytes{};
  overrun_told_ = false;
  quiet_pairs_ = 0;
  if (state_ == State::kIdle) Wake();
  pressed_rests_ = 0;
}

void Runtime::KeepProfile() {
  if (tape_ == nullptr || !complete_ || tape_->ops.empty() ||
      tape_->stages.empty()) {
    return;
  }
  const HostTier* tier = residency_.CanSpill() ? residency_.tier() : nullptr;
  last_profile_ =
      std::make_shared<Profile>(BuildProfile(*tape_, watch_, tier).profile);
}

std::shared_ptr<const Profile> Runtime::LastProfile() {
  const RuntimeLock lock;
  const Busy busy;
  if (last_profile_ == nullptr) KeepProfile();
  return last_profile_;
}

}  // namespace ebbtide
