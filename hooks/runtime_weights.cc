// Weight offload.
#include <string>

#include "absl/base/call_once.h"
#include "hooks/busy.h"
#include "hooks/list_ops.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "hooks/weights_observer.h"

namespace ebbtide {
namespace {

c10::Storage Share(c10::StorageImpl* storage) {
  return c10::Storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
}

}  // namespace

void Runtime::StartWeights() {
  if (!settings_.weights || !settings_.budget) return;
  if (residency_.tier() == nullptr) {
    Say("weights stay on the device: there is nowhere to move them");
    return;
  }
  static absl::once_flag once;
  absl::call_once(once, [this] {
    InstallWeightObserver(&weights_);
    InstallSlicedOps(&weights_);
  });
  weights_.Start({.tier = residency_.tier(),
                  .is_busy =
                      [this](const c10::Storage& storage) {
                        return residency_.IsBusyWith(storage);
                      },
                  .say = [this](const std::string& line) { Say(line); }});
}

void Runtime::ExposeWeight(c10::StorageImpl* storage) {
  const RuntimeLock lock;
  const Busy busy;
  weights_.Expose(Share(storage));
}

bool Runtime::HoldWeight(c10::StorageImpl* storage) {
  const RuntimeLock lock;
  const Busy busy;
  return weights_.Pin(Share(storage)) != nullptr;
}

void Runtime::ReleaseWeight(c10::StorageImpl* storage) {
  const RuntimeLock lock;
  weights_.Unpin(Share(storage));
}

bool Runtime::IsWeight(c10::StorageImpl* storage) {
  const RuntimeLock lock;
  return weights_.Manages(Share(storage));
}

}  // namespace ebbtide
