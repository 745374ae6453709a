// The driver's functions that torch asks the runtime for by name, and those
// that its compiler helper finds in libcuda.so.1.
#include <cuda.h>

#include <cstring>
#include <string>
#include <string_view>

#include "tests/cudasim/control.h"
#include "tests/cudasim/runtime.h"

namespace cudasim {
namespace {

// One context per device.
constexpr uintptr_t kFirstContext = 0x1000;
constexpr Nanos kSetNs = 2000;

CUcontext ContextOf(int device) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never dereferenced
  return reinterpret_cast<CUcontext>(kFirstContext + device);
}

// NOLINTNEXTLINE(performance-no-int-to-ptr): a device pointer is a number
void* Pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

CUresult Result(Error error) {
  switch (error) {
    case Error::kNone:
      return CUDA_SUCCESS;
    case Error::kMemoryAllocation:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Result(int error) {
  return error == 0                               ? CUDA_SUCCESS
         : error == int(Error::kMemoryAllocation) ? CUDA_ERROR_OUT_OF_MEMORY
                                                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

// Both interfaces number their attributes alike.
CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute,
                            CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
    *value = 1;
    return CUDA_SUCCESS;
  }
  return Result(cudaDeviceGetAttribute(
      value, static_cast<cudaDeviceAttr>(attribute), device));
}

CUresult MemAddressReserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr,
                           unsigned long long) {  // NOLINT: CUDA's type
  const Call call("cuMemAddressReserve");
  if (call.error()) return Result(call.error());
  void* address = nullptr;
  const Error error = call->heap.Reserve(size, &address);
  *out = reinterpret_cast<CUdeviceptr>(address);
  return Result(error);
}

CUresult MemAddressFree(CUdeviceptr address, size_t) {
  const Call call("cuMemAddressFree");
  if (call.error()) return Result(call.error());
  return Result(call->heap.EndReservation(Pointer(address)));
}

CUresult MemCreate(CUmemGenericAllocationHandle* out, size_t size,
                   const CUmemAllocationProp* properties,
                   unsigned long long) {  // NOLINT: CUDA's type
  Call call("cuMemCreate");
  if (call.error()) return Result(call.error());
  if (const auto& device = call->settings.device) {
    call.Spend(device->malloc.At(size));
  }
  uint64_t handle = 0;
  const Error error =
      call->heap.CreateHandle(properties->location.id, size, &handle);
  *out = handle;
  return Result(error);
}

CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  const Call call("cuMemRelease");
  if (call.error()) return Result(call.error());
  return Result(call->heap.ReleaseHandle(handle));
}

CUresult MemMap(CUdeviceptr address, size_t size, size_t offset,
                CUmemGenericAllocationHandle handle,
                unsigned long long) {  // NOLINT: CUDA's type
  const Call call("cuMemMap");
  if (call.error()) return Result(call.error());
  return Result(call->heap.Map(Pointer(address), size, offset, handle));
}

// Waits for all devices: what is unmapped cannot be written any more. Nothing
// says that a device does, so who did not wait before has made a mistake.
CUresult MemUnmap(CUdeviceptr address, size_t size) {
  Call call("cuMemUnmap");
  if (call.error()) return Result(call.error());
  const std::string hazard =
      call->hazards.Unmapped(Pointer(address), size, call->queue.host_order());
  if (!hazard.empty() && call->hazards_fatal) call->Break(hazard);
  call->queue.WaitAll(-1, call.lock());
  if (const auto& device = call->settings.device) {
    call.Spend(device->free.At(size));
  }
  return Result(call->heap.Unmap(Pointer(address), size));
}

CUresult MemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return Result(Call("cuMemSetAccess").error());
}

CUresult MemGetAllocationGranularity(size_t* size, const CUmemAllocationProp*,
                                     CUmemAllocationGranularity_flags) {
  *size = kPageSize;
  return Result(Call("cuMemGetAllocationGranularity").error());
}

CUresult MemGetAddressRange(CUdeviceptr* begin, size_t* size,
                            CUdeviceptr address) {
  const Call call("cuMemGetAddressRange");
  if (call.error()) return Result(call.error());
  const void* const first = call->heap.BeginOf(Pointer(address));
  if (first == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = reinterpret_cast<CUdeviceptr>(first);
  if (size != nullptr) *size = call->heap.SizeOf(first);
  return CUDA_SUCCESS;
}

CUresult MemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                   void* address) {
  const Call call("cuMemRetainAllocationHandle");
  if (call.error()) return Result(call.error());
  *handle = call->heap.RetainHandle(address);
  return *handle != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult MemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                              CUmemGenericAllocationHandle) {
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return CUDA_SUCCESS;
}

CUresult MemsetD32Async(CUdeviceptr address, unsigned value, size_t count,
                        CUstream handle) {
  Call call("cuMemsetD32Async");
  if (call.error()) return Result(call.error());
  Stream* const stream = call.StreamOf(handle);
  const size_t size = count * sizeof value;
  if (stream == nullptr || !call->heap.Covers(Pointer(address), size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++call->memsets;
  std::byte* const bytes = call->heap.Bytes(Pointer(address));
  Work work;
  work.name = "memset";
  work.activity = {.sort = cudasim::Activity::Sort::kSet, .bytes = size};
  work.cost = kSetNs;
  work.accesses = {{Pointer(address), size, true}};
  work.move = [=] {
    for (size_t i = 0; i < count; ++i) {
      memcpy(bytes + i * sizeof value, &value, sizeof value);
    }
  };
  call->Push(stream, std::move(work), call.lock());
  return CUDA_SUCCESS;
}

CUresult GetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS               ? "no error"
          : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
                                              : "error of the simulator";
  return CUDA_SUCCESS;
}

CUresult CtxGetCurrent(CUcontext* context) {
  *context = ContextOf(Thread().device);
  return CUDA_SUCCESS;
}

CUresult CtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }

CUresult DevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  if (flags != nullptr) *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult PointerGetAttribute(void* out, CUpointer_attribute attribute,
                             CUdeviceptr address) {
  const Call call("cuPointerGetAttribute");
  if (call.error()) return Result(call.error());
  const int device = call->heap.DeviceOf(Pointer(address));
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    *static_cast<int*>(out) = device;
  } else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
    *static_cast<CUcontext*>(out) = ContextOf(device);
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

struct Entry {
  std::string_view name;
  void* function;
};

template <typename Function>
Entry EntryOf(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const Entry kEntries[] = {
    EntryOf("cuDeviceGet", DeviceGet),
    EntryOf("cuDeviceGetAttribute", DeviceGetAttribute),
    EntryOf("cuMemAddressReserve", MemAddressReserve),
    EntryOf("cuMemAddressFree", MemAddressFree),
    EntryOf("cuMemCreate", MemCreate),
    EntryOf("cuMemRelease", MemRelease),
    EntryOf("cuMemMap", MemMap),
    EntryOf("cuMemUnmap", MemUnmap),
    EntryOf("cuMemSetAccess", MemSetAccess),
    EntryOf("cuMemGetAllocationGranularity", MemGetAllocationGranularity),
    EntryOf("cuMemGetAddressRange", MemGetAddressRange),
    EntryOf("cuMemRetainAllocationHandle", MemRetainAllocationHandle),
    EntryOf("cuMemGetAllocationPropertiesFromHandle",
            MemGetAllocationPropertiesFromHandle),
    EntryOf("cuMemsetD32Async", MemsetD32Async),
    EntryOf("cuGetErrorString", GetErrorString),
    EntryOf("cuCtxGetCurrent", CtxGetCurrent),
    EntryOf("cuCtxSetCurrent", CtxSetCurrent),
    EntryOf("cuDevicePrimaryCtxGetState", DevicePrimaryCtxGetState),
    EntryOf("cuDevicePrimaryCtxRetain", DevicePrimaryCtxRetain),
    EntryOf("cuPointerGetAttribute", PointerGetAttribute),
};

// torch refuses to start without these, but calls them only for what the
// simulator does not do: sharing memory between processes, and device barriers.
constexpr std::string_view kRefused[] = {
    "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
    "cuStreamWriteValue32", "cuLaunchKernel"};

CUresult Refuse() {
  cudasim_missing("a driver function for sharing or launching");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace
}  // namespace cudasim

extern "C" {

void* cudasim_driver_symbol(const char* name) {
  for (const cudasim::Entry& entry : cudasim::kEntries) {
    if (entry.name == name) return entry.function;
  }
  for (const std::string_view refused : cudasim::kRefused) {
    if (refused == name) return reinterpret_cast<void*>(cudasim::Refuse);
  }
  return nullptr;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned,
    unsigned long long,  // NOLINT: CUDA's type
    cudaDriverEntryPointQueryResult* result) {
  *function = cudasim_driver_symbol(name);
  if (result != nullptr) {
    *result = *function != nullptr ? cudaDriverEntryPointSuccess
                                   : cudaDriverEntryPointSymbolNotFound;
  }
  return cudasim::Pass(__func__);
}

}  // extern "C"
