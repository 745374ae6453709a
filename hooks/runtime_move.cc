// How the runtime turns to another kind of device.
#include <utility>

#include "absl/strings/str_cat.h"
#include "hooks/busy.h"
#include "hooks/op_info.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {

void Runtime::MoveTo(Device* device) {
  const RuntimeLock lock;
  const Busy busy;
  if (state_ == State::kOff || device == &Device::Get()) return;
  if (residency_.CountSavedTensors() > 0) {
    return TurnOff("tensors of another kind of device are being trained");
  }
  EndPair();
  auto tier = device->OpenTier(settings_);
  if (!tier.ok()) Say(absl::StrCat("no spilling: ", tier.status().message()));
  residency_.SetTier(tier.ok() ? *std::move(tier) : nullptr);
  // What is known is of ops on the other kind.
  tape_.reset();
  plan_run_.reset();
  steady_run_.reset();
  followed_plan_.reset();
  planning_.Clear();
  books_ = LruMap<SignatureBook>(settings_.signatures);
  recognition_ = Recognition();
  signature_ = 0;
  step_began_ = 0;
  Device::Get().StopBounding();
  Device::Use(device);
  ForgetOpInfo();
  RunLog::Global().SampleFrom(&ledger());
  state_ = State::kWatch;
  EnableRecorder(true);
}

}  // namespace ebbtide
