// Devices, errors, and what the simulator does not do.
#include <cstdio>
#include <utility>

#include "tests/cudasim/control.h"
#include "tests/cudasim/runtime.h"

namespace cudasim {
namespace {

constexpr int kVersion = 13000;

bool IsDevice(const Call& call, int device) {
  return device >= 0 && device < call->settings.heap.devices;
}

// An A100's, except for what the settings and the device file say.
void Describe(const Call& call, int device, cudaDeviceProp* p) {
  const Settings& settings = call->settings;
  *p = {};
  const char* const name =
      settings.device ? settings.device->name.c_str() : "cudasim (no device)";
  snprintf(p->name, sizeof p->name, "%s", name);
  p->major = settings.compute_capability / 10;
  p->minor = settings.compute_capability % 10;
  p->uuid.bytes[0] = 'S';
  p->uuid.bytes[15] = static_cast<char>(device);
  p->totalGlobalMem = call->heap.capacity();
  p->sharedMemPerBlock = 48 << 10;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = settings.multiprocessors;
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->pciBusID = 1 + device;
  p->asyncEngineCount = 3;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = settings.device ? settings.device->l2_bytes : 40 << 20;
  p->maxThreadsPerMultiProcessor = 2048;
  p->streamPrioritiesSupported = 1;
  p->sharedMemPerMultiprocessor = 164 << 10;
  p->regsPerMultiprocessor = 65536;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = 163 << 10;
  p->maxBlocksPerMultiProcessor = 32;
  p->reservedSharedMemPerBlock = 1024;
  p->hostRegisterSupported = 1;
}

int AttributeOf(const cudaDeviceProp& p, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerBlock;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[1];
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

cudaError_t NotSimulated(const char* function) {
  cudasim_missing(function);
  return Report(Error::kNotSupported);
}

}  // namespace cudasim

using cudasim::Call;
using cudasim::Error;
using cudasim::Pass;
using cudasim::Report;
using cudasim::Thread;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  *count = call->settings.heap.devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  *device = Thread().device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  if (!cudasim::IsDevice(call, device)) return Report(cudaErrorInvalidDevice);
  Thread().device = device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = cudasim::kVersion;
  return Pass(__func__);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = cudasim::kVersion;
  return Pass(__func__);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  if (!cudasim::IsDevice(call, device)) return Report(cudaErrorInvalidDevice);
  cudasim::Describe(call, device, out);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  if (!cudasim::IsDevice(call, device)) return Report(cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  cudasim::Describe(call, device, &properties);
  *value = cudasim::AttributeOf(properties, attribute);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  snprintf(out, length, "0000:%02x:00.0", 1 + device);
  return Pass(__func__);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return Pass(__func__);
}

cudaError_t cudaDeviceSynchronize() {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  call->queue.WaitAll(Thread().device, call.lock());
  // The awaited work may have broken the device.
  return Report(call->broken == nullptr ? Error::kNone : Error::kLaunchFailure);
}

// No device reads another's memory, as on most machines: so torch moves bytes
// between two by copies alone, which the simulator does itself.
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return Pass(__func__);
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return Pass(__func__); }
cudaError_t cudaProfilerStart() { return Pass(__func__); }
cudaError_t cudaProfilerStop() { return Pass(__func__); }

cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(std::exchange(Thread().last_error, 0));
}

cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(Thread().last_error);
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorOfTheSimulator";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorLaunchFailure: {
      const char* const message = cudasim_broken();
      return message != nullptr ? message : "unspecified launch failure";
    }
    default:
      return "an error of the simulator";
  }
}

int cudasim_missing(const char* function) {
  const Call call(function, false);
  if (call->calls.count(function) == 1) {
    fprintf(stderr, "cudasim: %s is not simulated\n", function);
  }
  Thread().last_error = cudaErrorNotSupported;
  return cudaErrorNotSupported;
}

}  // extern "C"
