// The stand-in of libnvidia-ml.so.1. Torch 2.15 asks it of each expandable
// segment whether devices of other machines can reach it, without a look
// whether there is such a library. None can, and no process is known to use a
// device.
namespace {

constexpr int kNotSupported = 3;
int the_device = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  *device = &the_device;
  return 0;
}

int nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }

// Torch 2.11 does not survive a refusal.
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}

int nvmlSystemGetCudaDriverVersion_v2(int*) { return kNotSupported; }

}  // extern "C"
