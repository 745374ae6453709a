// Records the state of the tier in the trace.
#include <utility>

#include "hooks/device.h"
#include "hooks/residency.h"
#include "hooks/run_log.h"

namespace ebbtide {

void Residency::LogCopies() const {
  if (tier_ != nullptr) tier_->SetLog(RunLog::Global().ForTier());
}

void Residency::LogTier() {
  if (!RunLog::Global().IsOpen() || tier_ == nullptr) return;
  const Bytes used = tier_->room().used;
  if (std::exchange(logged_tier_, used) == used) return;
  const bool is_host = Device::Get().is_async();
  RunLog::Global().AddTier(is_host ? used : Bytes{}, is_host ? Bytes{} : used);
}

}  // namespace ebbtide
