// How the runtime steps aside.
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
  // Who has dropped something has to see what is written.
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
