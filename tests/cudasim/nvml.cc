// The stand-in of libnvidia-ml.so.1. Since torch 2.13 it is asked of each
// expandable segment whether devices of other machines can reach it, without a
// look whether there is such a library. None can, and no process is known to
// use a device.
namespace {

constexpr int kNotSupported = 3;
int the_device = 0;

// nvmlGpuFabricInfoV_t; torch's wheels bring no nvml.h.
struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};
constexpr unsigned char kNoFabric = 0;  // NVML_GPU_FABRIC_STATE_NOT_SUPPORTED

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  *device = &the_device;
  return 0;
}

// Torch 2.13 does not survive a refusal.
int nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) {
  info->status = 0;
  info->state = kNoFabric;
  return 0;
}

// Nor does torch 2.11 here.
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
