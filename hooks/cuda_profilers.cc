// State of PyTorch's profiler. Kineto uses CUPTI's activity interface without a
// subscriber, so CUPTI itself does not report it.
#include <libkineto.h>

#include "hooks/cuda_device.h"

namespace ebbtide {

// It is active from when it prepares a trace, which enables CUPTI's kinds
// already, to the end of that; also where a daemon asked for the trace.
Device::Profiler CudaDevice::profiler() const {
  libkineto::LibkinetoApi& kineto = libkineto::api();
  if (!kineto.isProfilerInitialized()) return Profiler::kNeverUsed;
  return kineto.activityProfiler().isActive() ? Profiler::kActive
                                              : Profiler::kAtRest;
}

}  // namespace ebbtide
