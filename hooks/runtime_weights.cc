// What the runtime does for weight offload.
#include <string>

#include "hooks/busy.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "hooks/weights_observer.h"

namespace ebbtide {

void Runtime::StartWeights() {
  if (!settings_.weights || !settings_.budget) return;
  if (Device::Get().is_async()) {
    Say("weights stay on the device: on CUDA they are not moved");
    return;
  }
  if (residency_.tier() == nullptr) {
    Say("weights stay on the device: there is nowhere to move them");
    return;
  }
  InstallWeightObserver(&weights_);
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
  weights_.Expose(c10::Storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)));
}

void Runtime::SetSaving(bool is_saving) {
  const RuntimeLock lock;
  if (is_saving) {
    weights_.BeginSaving();
  } else {
    weights_.EndSaving();
  }
}

}  // namespace ebbtide
