// Kernels: what nvcc generates to register and launch them, and what programs
// ask about them. A launch queues the kernel's name and time.
#include <algorithm>
#include <vector>

#include "tests/cudasim/runtime.h"

namespace cudasim {
namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};

// Pushed by the caller of a kernel, popped by its stub.
std::vector<Configuration>& Configurations() {
  static thread_local std::vector<Configuration> stack;
  return stack;
}

cudaError_t LaunchStub(const char* function, const void* stub,
                       cudaStream_t stream) {
  Call call(function);
  if (call.error()) return Report(call.error());
  const auto name = call->kernel_names.find(stub);
  if (name == call->kernel_names.end()) {
    return Report(cudaErrorInvalidDeviceFunction);
  }
  const double us = call->settings.rates.kernel_us;
  return Launch(&call, stream, name->second, static_cast<Nanos>(us * 1e3));
}

}  // namespace

cudaError_t Launch(Call* call, const void* handle, const char* name,
                   Nanos cost) {
  Stream* const stream = call->StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  ++(*call)->kernels;
  Work work;
  work.name = name;
  work.cost = call->KernelTime(cost);
  work.activity.sort = Activity::Sort::kKernel;
  (*call)->Push(stream, std::move(work), call->lock());
  return cudaSuccess;
}

}  // namespace cudasim

using cudasim::Call;
using cudasim::Error;
using cudasim::Pass;
using cudasim::Report;

extern "C" {

void** __cudaRegisterFatBinary(void* binary) { return new void*(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* stub, char*, const char* name,
                            int, uint3*, uint3*, dim3*, dim3*, int*) {
  const Call call(nullptr);
  call->kernel_names[stub] = name;
}

void __cudaRegisterVar(void**, char* variable, char*, const char*, int,
                       size_t size, int, int) {
  const Call call(nullptr);
  call->variables[variable] = {
      size, std::vector<void*>(call->settings.heap.devices, nullptr)};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     CUstream_st* stream) {
  cudasim::Configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                       void* stream) {
  auto& stack = cudasim::Configurations();
  if (stack.empty()) return Report(cudaErrorMissingConfiguration);
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared = stack.back().shared;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}

// A kernel is known by its stub.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const Call call(nullptr);
  if (call->kernel_names.count(stub) == 0) {
    return Report(cudaErrorInvalidDeviceFunction);
  }
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return cudasim::LaunchStub("cudaLaunchKernel", kernel, stream);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3, dim3, void**, size_t,
                             cudaStream_t stream) {
  return cudasim::LaunchStub(__func__, stub, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3, dim3, void**,
                                        size_t, cudaStream_t stream) {
  return cudasim::LaunchStub("cudaLaunchKernel", stub, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                const void* stub, void**) {
  return cudasim::LaunchStub("cudaLaunchKernel", stub, config->stream);
}

// Plausible numbers: programs size grids and scratch memory by them.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void*) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  *out = {};
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->binaryVersion = out->ptxVersion = call->settings.compute_capability;
  out->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return Pass(__func__);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int block_size, size_t, unsigned) {
  *blocks = std::max(1, 2048 / std::max(block_size, 1));
  return Pass(__func__);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* stub,
                                                          int block_size,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, stub, block_size, shared, 0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  const auto found = call->variables.find(symbol);
  if (found == call->variables.end()) return Report(cudaErrorInvalidSymbol);
  const int device = cudasim::Thread().device;
  void*& place = found->second.addresses[device];
  if (place == nullptr) {
    const Error error = call->heap.Allocate(device, found->second.size, &place);
    if (error != Error::kNone) return Report(error);
  }
  *address = place;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from,
                               size_t size, size_t offset, cudaMemcpyKind) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
  if (error != cudaSuccess) return error;
  return cudaMemcpy(static_cast<std::byte*>(address) + offset, from, size,
                    cudaMemcpyHostToDevice);
}

}  // extern "C"
