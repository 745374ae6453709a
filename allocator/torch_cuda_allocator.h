// Plugs ebbtide into PyTorch's native CUDA caching allocator
// (reference: PyTorch's c10/cuda/CUDACachingAllocator.h).
//
// The native allocator keeps raw blocks, private pools, history and statistics;
// tensors lie in an arena of pages below a budget
// (allocator/torch_cuda_arena.h). ebbtide's allocator, in front of it,
//  - keeps books of what is alive, by kind, from traces;
//  - holds the bytes reserved from a device, pages and segments of the native
//    allocator, to a budget. Free pages go first, wherever memory is short;
//    then the pressure handler is asked to free something;
//  - lets the native OutOfMemoryError through when the handler has nothing
//    left, so that a program can catch it and go on, with a report below its
//    text.
//
// A device that cannot map memory has the native allocator alone, whose
// segments go back whole only: more is evicted there. For the backend
// cudaMallocAsync only statistics are seen: there are no books, and the
// pressure handler is asked as its live bytes say.
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_ALLOCATOR_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_ALLOCATOR_H_

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/units.h"

namespace ebbtide {

class DeviceArena;

class CudaAllocator {
 public:
  // Frees something of a device and returns true, or returns false: nothing is
  // left. Must not throw. `is_locked`: this thread holds the native allocator's
  // lock, so that waiting for a lock of ours could be for ever.
  using PressureHandler = bool (*)(c10::DeviceIndex device, Bytes needed,
                                   bool is_locked);

  // Memory of a device when it is first used.
  struct Room {
    Bytes total{};
    Bytes free{};      // free for all processes
    Bytes reserved{};  // by this process's allocator
  };

  // Decides what is carried out here. Each may be nullptr; none may throw.
  struct Policy {
    PressureHandler relieve = nullptr;
    // The budget of a device, or kNoBudget. Asked once, before the first
    // request on the device is served; that request makes the device's context.
    Bytes (*budget)(c10::DeviceIndex device, const Room& room) = nullptr;
    // Lines to stand below the native text of an OutOfMemoryError on a device
    // with a budget, without a newline at the end; "" for none.
    std::string (*explain)(c10::DeviceIndex device, Bytes wanted) = nullptr;
    // The device has a budget, and no arena for that reason.
    void (*on_no_arena)(c10::DeviceIndex device,
                        const absl::Status& why) = nullptr;
    // The op that this thread is in, for reports; "": unknown.
    std::string (*name_op)() = nullptr;
  };

  // Takes the place of the native allocator; once, before or after CUDA was
  // initialised, which it does not do itself. FailedPrecondition if another
  // allocator than PyTorch's is in place, whose name the message has, or if it
  // was done before.
  static absl::Status Install(const Policy& policy);

  // nullptr where the device has no arena, or the block is of none.
  static DeviceArena* ArenaOf(c10::DeviceIndex device);
  static DeviceArena* ArenaOf(const void* block);

  // True if PyTorch still asks our allocator.
  static bool IsInPlace();

  // True if the books are kept; false for cudaMallocAsync.
  static bool SeesBlocks();

  // Devices that a request was made on, in order.
  static std::vector<c10::DeviceIndex> UsedDevices();

  // From the next request on `device` on; the policy is not asked any more.
  // Without one it is only watched.
  static void SetBudget(c10::DeviceIndex device, Bytes budget);
  static Bytes BudgetOf(c10::DeviceIndex device);

  // True while requests of some thread may go to a private pool, as they do
  // while PyTorch captures a graph.
  static bool HasOpenPool();

  // True if a request for so many bytes, of this thread and on its stream,
  // needs nothing to be evicted.
  static bool FindsRoom(c10::DeviceIndex device, Bytes size);

  // True if the native allocator gets the block back when `data` is destroyed.
  static bool IsNative(const c10::DataPtr& data);
  // Frees do not come by here. From now on, `observer` is called with the block
  // before it is freed, if it is native. The observer is set once, before.
  static void SetFreeObserver(void (*observer)(void* block));
  static void ObserveFree(c10::DataPtr* data);
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ALLOCATOR_H_
