// The stand-in of libcuda.so.1, which torch's compiler helper needs: what the
// simulated driver has is passed on, the rest is generated stubs.
#include <cuda.h>

#include "tests/cudasim/control.h"

namespace {

template <typename... Parameters, typename... Arguments>
CUresult Forward(const char* name, CUresult (*)(Parameters...),
                 Arguments... arguments) {
  auto* const function = reinterpret_cast<CUresult (*)(Parameters...)>(
      cudasim_driver_symbol(name));
  return function == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                             : function(arguments...);
}

}  // namespace

extern "C" {

CUresult cuCtxGetCurrent(CUcontext* context) {
  return Forward(__func__, cuCtxGetCurrent, context);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return Forward(__func__, cuCtxSetCurrent, context);
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Forward(__func__, cuDeviceGet, device, ordinal);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice device) {
  return Forward(__func__, cuDeviceGetAttribute, value, attribute, device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                    int* active) {
  return Forward(__func__, cuDevicePrimaryCtxGetState, device, flags, active);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Forward(__func__, cuDevicePrimaryCtxRetain, context, device);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return Forward(__func__, cuGetErrorString, error, text);
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  return Forward(__func__, cuPointerGetAttribute, out, attribute, address);
}

}  // extern "C"
