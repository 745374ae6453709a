// Turns the runtime off.
#include <string>

#include "absl/strings/str_cat.h"
#include "hooks/recorder.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {

void Runtime::TurnOff(const std::string& why) {
  if (state_ == State::kOff) return;
  StepAside(why);
  SayHere(absl::StrCat("off: ", why));
}

void Runtime::StepAside(const std::string& why) {
  state_ = State::kOff;
  weights_.Retire();
  watch_.kernels().Drop();
  // Writes must be seen while a dropped storage may be recomputed.
  EnableRecorder(residency_.IsOwing());
  off_because_ = why;
}

void Runtime::LeaveCpu() {
  Device::Get().StopBounding();
  const RuntimeLock lock;
  if (state_ == State::kOff) return;
  StepAside("the budget is that of the CUDA devices");
}

}  // namespace ebbtide
