// Memory: allocation, copies, sets.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cudasim/runtime.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace cudasim {
namespace {

// Latency of a copy or set, before its first byte.
constexpr double kTransferNs = 2000;
constexpr double kOnDeviceGbps = 1000;
// The driver writes pageable memory at most so fast, where its pages are there.
constexpr double kPageableGbps = 10;
// Without bytes the host reads zeros from the device. Larger pieces lose their
// pages instead, so that they take no memory.
constexpr size_t kSetByHand = 64 << 10;

struct Copy {
  void* to;
  const void* from;
  size_t size;
  bool to_device;
  bool from_device;
  bool pageable_to;
  bool pageable_from;
};

bool Valid(Call& call, const Copy& copy) {
  const bool valid =
      (!copy.to_device || call->heap.Covers(copy.to, copy.size)) &&
      (!copy.from_device || call->heap.Covers(copy.from, copy.size));
  if (!valid) ++call->out_of_bounds;
  return valid;
}

Activity::Direction DirectionOf(Call& call, const Copy& copy) {
  if (!copy.to_device) return Activity::Direction::kToHost;
  if (!copy.from_device) return Activity::Direction::kToDevice;
  return call->heap.DeviceOf(copy.to) == call->heap.DeviceOf(copy.from)
             ? Activity::Direction::kOnDevice
             : Activity::Direction::kBetweenDevices;
}

void Zero(void* to, size_t size) {
  constexpr uintptr_t kPage = 4096;
  auto* const begin = static_cast<std::byte*>(to);
  const auto number = reinterpret_cast<uintptr_t>(to);
  const size_t head = (kPage - number % kPage) % kPage;
  if (size < kSetByHand) {
    memset(begin, 0, size);
    return;
  }
  const size_t middle = (size - head) / kPage * kPage;
  memset(begin, 0, head);
  if (madvise(begin + head, middle, MADV_DONTNEED) != 0) {
    memset(begin + head, 0, middle);
  }
  // As behind a real copy, who reads it takes no page faults. A wish.
  madvise(begin + head, middle, MADV_POPULATE_READ);
  memset(begin + head + middle, 0, size - head - middle);
}

// The times of a copy by the device file.
void TimeCopy(Call& call, const Copy& copy, Work* work) {
  const DeviceModel& device = *call->settings.device;
  if (work->engine == Engine::kOnDevice) {
    work->cost = call.KernelTime(0);
    if (!Thread().op.runs) {
      work->cost += static_cast<Nanos>(2 * copy.size / device.memory_bytes);
    }
    return;
  }
  const double alone =
      work->engine == Engine::kToHost ? device.to_host : device.to_device;
  double ns = device.copy_start + copy.size / alone;
  double both = device.copy_start + copy.size / device.both_ways;
  if (copy.pageable_to) {
    // Fresh pages: programs do not keep such a buffer.
    const double host = copy.size < kSetByHand ? copy.size / kPageableGbps
                                               : device.touch.At(copy.size);
    ns = std::max(ns, host);
    both = std::max(both, host);
  }
  work->cost = static_cast<Nanos>(ns);
  work->cost_both_ways = static_cast<Nanos>(both);
}

Work WorkOf(Call& call, const Copy& copy) {
  Work work;
  const Rates& rates = call->settings.rates;
  double gbps = kOnDeviceGbps;
  work.activity = {Activity::Sort::kCopy, DirectionOf(call, copy), copy.size};
  if (copy.from_device && copy.to_device) {
    work.name = "copy on the device";
    work.engine = Engine::kOnDevice;
  } else if (copy.to_device) {
    work.name = "copy to the device";
    work.engine = Engine::kToDevice;
    gbps = rates.h2d_gbps;
  } else {
    work.name = "copy to the host";
    work.engine = Engine::kToHost;
    gbps = rates.d2h_gbps;
  }
  work.cost = static_cast<Nanos>(kTransferNs + copy.size / gbps);
  if (call->settings.device) TimeCopy(call, copy, &work);
  work.accesses = {{copy.from, copy.size, false}, {copy.to, copy.size, true}};
  if (copy.to_device && Thread().shadowed > 0) return work;
  if (!call->settings.moves_bytes) {
    if (!copy.to_device) {
      work.move = [copy, flag = call->settings.flag] {
        Zero(copy.to, copy.size);
        if (copy.size == 1)
          *static_cast<char*>(copy.to) = static_cast<char>(flag);
      };
    }
    return work;
  }
  std::byte* const to = call->heap.Bytes(copy.to);
  const std::byte* const from = call->heap.Bytes(copy.from);
  const size_t size = copy.size;
  if (copy.pageable_from) {
    // Staged: the program may write its source as soon as the call returns.
    auto staged =
        std::make_shared<std::vector<std::byte>>(from, from + copy.size);
    work.move = [to, staged] { memcpy(to, staged->data(), staged->size()); };
  } else {
    work.move = [to, from, size] { memmove(to, from, size); };
  }
  return work;
}

cudaError_t Transfer(Call& call, void* to, const void* from, size_t size,
                     const void* handle, bool blocking) {
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (size == 0) return cudaSuccess;
  Copy copy{to, from, size, call->heap.IsDevice(to), call->heap.IsDevice(from)};
  copy.pageable_to = !copy.to_device && !call->host.IsPinned(to);
  copy.pageable_from = !copy.from_device && !call->host.IsPinned(from);
  if (!Valid(call, copy)) return Report(Error::kInvalidValue);
  blocking |= copy.pageable_to;
  if (stream->capture && blocking) {
    return Report(Error::kStreamCaptureUnsupported);
  }
  ++call->copies;
  call->copied_bytes += size;
  const OpRef op = call->Push(stream, WorkOf(call, copy), call.lock());
  if (blocking) call->queue.Wait(op, call.lock());
  return cudaSuccess;
}

cudaError_t Set(Call& call, void* to, int value, size_t size,
                const void* handle, bool blocking) {
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (size == 0) return cudaSuccess;
  if (!call->heap.Covers(to, size)) {
    ++call->out_of_bounds;
    return Report(Error::kInvalidValue);
  }
  ++call->memsets;
  Work work;
  work.name = "memset";
  work.activity = {.sort = Activity::Sort::kSet, .bytes = size};
  work.cost = static_cast<Nanos>(kTransferNs + size / kOnDeviceGbps);
  if (const auto& device = call->settings.device) {
    work.cost = call.KernelTime(0);
    if (!Thread().op.runs) {
      work.cost += static_cast<Nanos>(size / device->memory_bytes);
    }
  }
  work.accesses = {{to, size, true}};
  if (Thread().shadowed == 0 && call->settings.moves_bytes) {
    std::byte* const bytes = call->heap.Bytes(to);
    work.move = [bytes, value, size] { memset(bytes, value, size); };
  }
  const OpRef op = call->Push(stream, std::move(work), call.lock());
  if (blocking) call->queue.Wait(op, call.lock());
  return cudaSuccess;
}

}  // namespace
}  // namespace cudasim

using cudasim::Call;
using cudasim::Error;
using cudasim::Report;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t size) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  *address = nullptr;
  if (size == 0) return cudaSuccess;
  if (const auto& device = call->settings.device) {
    call.Spend(device->malloc.At(size));
  }
  return Report(call->heap.Allocate(cudasim::Thread().device, size, address));
}

// Waits for the device, as the real one does.
cudaError_t cudaFree(void* address) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (address == nullptr) return cudaSuccess;
  call->queue.WaitAll(cudasim::Thread().device, call.lock());
  const size_t size = call->heap.SizeOf(address);
  if (const auto& device = call->settings.device) {
    call.Spend(device->free.At(size));
  }
  const Error error = call->heap.Free(address);
  if (error == Error::kNone) call->hazards.Gone(address, size);
  return Report(error);
}

cudaError_t cudaHostAlloc(void** address, size_t size, unsigned) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (const auto& device = call->settings.device) {
    call.Spend(device->host_alloc_per_byte * size);
  }
  return Report(call->host.Allocate(size, call->heap.poison(), address));
}

cudaError_t cudaMallocHost(void** address, size_t size) {
  return cudaHostAlloc(address, size, 0);
}

cudaError_t cudaFreeHost(void* address) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (address == nullptr) return cudaSuccess;
  call->queue.WaitAll(-1, call.lock());
  return Report(call->host.Free(address));
}

cudaError_t cudaHostRegister(void* address, size_t size, unsigned) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (const auto& device = call->settings.device) {
    call.Spend(device->host_register.At(size));
  }
  if (!call->settings.moves_bytes) cudasim::Zero(address, size);
  return Report(call->host.Register(address, size));
}

cudaError_t cudaHostUnregister(void* address) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  call->queue.WaitAll(-1, call.lock());
  if (const auto& device = call->settings.device) {
    call.Spend(device->host_unregister.At(call->host.SizeOf(address)));
  }
  return Report(call->host.Unregister(address));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out,
                                     const void* address) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  *out = {};
  void* const pointer = const_cast<void*>(address);
  const int device = call->heap.DeviceOf(address);
  out->device = device;
  if (device >= 0) {
    out->type = cudaMemoryTypeDevice;
    out->devicePointer = pointer;
  } else if (call->host.IsPinned(address)) {
    out->type = cudaMemoryTypeHost;
    out->device = 0;
    out->hostPointer = out->devicePointer = pointer;
  } else {
    out->type = cudaMemoryTypeUnregistered;
    out->hostPointer = pointer;
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  const uint64_t used = call->heap.used(cudasim::Thread().device);
  *total = call->heap.capacity();
  *free = *total > used ? *total - used : 0;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t size,
                       cudaMemcpyKind) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  return cudasim::Transfer(call, to, from, size, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size,
                            cudaMemcpyKind, cudaStream_t stream) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  return cudasim::Transfer(call, to, from, size, stream, false);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                size_t size, cudaStream_t stream) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  return cudasim::Transfer(call, to, from, size, stream, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudasim::Transfer(
        call, static_cast<std::byte*>(to) + row * to_pitch,
        static_cast<const std::byte*>(from) + row * from_pitch, width, stream,
        false);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t size) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  return cudasim::Set(call, to, value, size, nullptr, true);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t size,
                            cudaStream_t stream) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  return cudasim::Set(call, to, value, size, stream, false);
}

}  // extern "C"
