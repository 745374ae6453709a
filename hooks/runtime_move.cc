// Moves the runtime to another kind of device.
#include "hooks/busy.h"
#include "hooks/op_info.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {

void Runtime::MoveTo(Device* device, std::optional<Bytes> budget) {
  const RuntimeLock lock;
  const Busy busy;
  Device& before = Device::Get();
  const bool has_stepped_aside = is_started_ && state_ == State::kOff;
  if (device == &before || has_stepped_aside) return;
  before.StopBounding();
  if (residency_.CountSavedTensors() > 0) {
    return TurnOff("a graph of the CPU is alive where CUDA is first used");
  }
  weights_.LeaveTier();
  EndPair();
  // All recorded state is about ops on the former kind.
  tape_.reset();
  plan_run_.reset();
  steady_run_.reset();
  followed_plan_.reset();
  planning_.Clear();
  books_ = LruMap<SignatureBook>(settings_.signatures);
  recognition_ = Recognition();
  signature_ = 0;
  step_began_ = 0;
  ForgetOpInfo();
  settings_.budget = budget;
  Device::Use(device);
  RunLog::Global().SampleFrom(&ledger());
  is_started_ = true;
  if (const absl::Status entered = Enter(device); !entered.ok()) {
    return TurnOff(std::string(entered.message()));
  }
  Begin();
}

}  // namespace ebbtide
