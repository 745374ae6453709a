// Plugs HostAllocator into PyTorch as the CPU allocator.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CPU_ALLOCATOR_H_
#define EBBTIDE_ALLOCATOR_TORCH_CPU_ALLOCATOR_H_

#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "allocator/allocation_kind.h"
#include "allocator/host_allocator.h"

namespace ebbtide {

// Replaces c10's CPU allocator. Tensors made before keep their own deleters.
void InstallCpuAllocator();

// `observer` is called with every block before it is freed. Before the above.
void SetFreeObserver(void (*observer)(void* block));

// Where the system has no memory for a request of the program, the error is the
// one of PyTorch's own allocator, with what `explainer` returns in a line
// below;
// "": nothing. Requests for which `is_own` returns true are ebbtide's, and
// raise c10::OutOfMemoryError. Before InstallCpuAllocator.
void SetExplainer(std::string (*explainer)(Bytes request), bool (*is_own)());

// The first line of that error where no system call has failed: batch-size
// finders look for it. Bytes{}: no single request.
std::string CpuOutOfMemoryText(Bytes request);

// Uninitialised bytes from it, resizable as those of new tensors are.
c10::Storage NewStorage(size_t bytes);

// True if freeing the storage gives its bytes back to our allocator.
bool IsFromOurAllocator(const c10::Storage& storage);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CPU_ALLOCATOR_H_
