// The seam to the kind of device whose tensors are managed: what the rest of
// hooks/ asks of it. There are two forms: the CPU (RAM is the device, a file
// the tier below it) and CUDA (hooks/cuda_device.h; only in the library that is
// linked to PyTorch's CUDA half).
//
// One form at a time is in use in a process. Devices of a kind are
// distinguished by their index; the CPU has one, 0.
//
// The work of an asynchronous device is queued on streams and runs later.
// Memory belongs to the stream that was current when it was allocated: free
// again, it may be handed out at once for work behind in that stream. So who
// reads bytes that another stream makes, or frees bytes that another stream
// reads, orders the two. Work queued here goes to the current stream of the
// calling thread.
//
// Thread-safe, except where the runtime's lock is asked for. Nothing here may
// be called in a child of fork but AfterFork.
#ifndef EBBTIDE_HOOKS_DEVICE_H_
#define EBBTIDE_HOOKS_DEVICE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/ledger.h"
#include "hooks/host_tier.h"
#include "hooks/settings.h"
#include "hooks/tier_words.h"
#include "planner/units.h"
#include "profiler/clock.h"

namespace ebbtide {

// Memory is short on a device.
struct Pressure {
  int device = 0;
  Bytes needed{};
  // PyTorch's allocator is locked by this thread: nothing may be waited for
  // that might need it, and nothing be allocated.
  bool is_locked = false;
};

// A place in the queue of a stream.
struct TimeMark {
  TimeMark() = default;
  virtual ~TimeMark() = default;
  TimeMark(const TimeMark&) = delete;
  TimeMark& operator=(const TimeMark&) = delete;
};

class Device {
 public:
  // Functions of the runtime that the device calls, on whichever thread needs
  // them.
  struct Callbacks {
    // Frees something and returns true, or returns false: nothing is left. Must
    // not throw.
    bool (*relieve)(const Pressure& pressure);
    // A request goes beyond the budget all the same. May throw to refuse it.
    void (*on_overrun)(Bytes wanted, Bytes budget);
    // The system has no memory for a request: what to add to the error, or "".
    std::string (*explain)(Bytes request);
  };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The form in use.
  static Device& Get() { return *in_use_.load(std::memory_order_relaxed); }
  // Before anything else, or by Runtime::MoveTo; `device` lives for ever.
  static void Use(Device* device) { in_use_ = device; }

  c10::DeviceType type() const { return type_; }
  bool is_async() const { return is_async_; }
  const TierWords& tier_words() const {
    return is_async_ ? kHostWords : kDiskWords;
  }
  c10::DispatchKey autograd_key() const { return autograd_key_; }
  c10::DispatchKey autocast_key() const { return autocast_key_; }
  // For people.
  struct Facts {
    std::string name;
    double megahertz = 0;  // 0: unknown
    std::string versions;  // versions of the layers between the device and
                           // PyTorch, if any
  };
  virtual Facts FactsOf(int index) const = 0;
  // Index of the one that is current on this thread.
  virtual int CurrentIndex() const = 0;
  static int IndexOf(const c10::Storage& storage) {
    return storage.device().index() < 0 ? 0 : storage.device().index();
  }

  // Begins to see the memory of its devices, and to hold it to the budgets of
  // `settings`. Once; where it fails nothing has been changed.
  virtual absl::Status Install(const Settings& settings,
                               const Callbacks& callbacks) = 0;

  // Memory of a device in use, for budgets given as shares of it.
  struct Room {
    Bytes total{};
    Bytes free{};  // with what this process's allocator keeps
  };
  virtual Room RoomOf(int index) const = 0;
  // From the next request on.
  virtual void SetBudget(int index, Bytes budget) = 0;
  // Nothing is held to a budget any more, where that ends here.
  virtual void StopBounding() {}

  // A step ends there and the next one begins. `plan`: the number of the plan
  // that it followed, so that its addresses may be planned, too; 0: none. True
  // while they may come to be and are not yet.
  virtual bool BeginStep(int /*index*/, int64_t /*plan*/) { return false; }
  // The step that has just begun follows no more the plan of the last one.
  virtual void EndPlan(int /*index*/) {}

  // Reserved bytes that nothing alive uses and no other request can have: parts
  // of pages and of segments. nullopt where only the peaks of steps show them.
  virtual std::optional<Bytes> WasteBeside(int /*index*/) const {
    return std::nullopt;
  }
  // Bytes reserved for planned addresses and beside them: more than the budget
  // where the addresses find no room. nullopt while there are no such
  // addresses.
  virtual std::optional<Bytes> ReservedAsPlanned(int /*index*/) const {
    return std::nullopt;
  }

  int count() const { return static_cast<int>(ledgers_.size()); }
  // Memory in use by kind; the ledger's budget is the device's.
  Ledger& ledger(int index) const { return *ledgers_[index]; }
  // Highest of what the budget bounds since the last ResetPeak, which also
  // begins a window of the ledger; and since the start.
  virtual Bytes StepPeak(int index) const = 0;
  virtual Bytes RunPeak(int index) const = 0;
  virtual void ResetPeak(int index) = 0;
  // True if `wanted` bytes can be allocated without evicting anything.
  virtual bool FindsRoom(int index, Bytes wanted) const {
    return !ledger(index).WouldExceed(wanted);
  }
  // Returns the size of a block that holds that many bytes.
  virtual Bytes SizeOnDevice(size_t bytes) const = 0;

  // Uninitialised bytes, resizable as those of new tensors are. Throws
  // c10::OutOfMemoryError.
  virtual c10::Storage Allocate(size_t bytes, int index) = 0;
  // True if freeing the storage makes its bytes available to any request.
  virtual bool IsReclaimable(const c10::Storage& storage) const = 0;

  // From now on BeforeFree (hooks/guarded.h) is called with the storage's
  // present block when it is freed.
  virtual void SeeFree(const c10::Storage& storage) = 0;

  // The bytes, as the work queued so far leaves them, where the host can read
  // them: the storage itself, or a copy. May block.
  virtual c10::Storage OnHost(const c10::Storage& bytes) = 0;
  // A copy on the device. Throws as Allocate.
  virtual c10::Storage CopyOf(const c10::Storage& bytes) = 0;
  // Storage over bytes of the device that it does not own.
  c10::Storage Borrow(void* block, size_t bytes, int index) const;

  // Generators. A state is what its get_state gives.
  virtual at::Generator DefaultGenerator(int index) = 0;
  // With the generator's lock held.
  virtual void SetState(const at::Tensor& state, at::Generator* generator) = 0;

  // For asynchronous devices only. CurrentStream: the current stream of this
  // thread. Order: work queued on `after` from now on runs after work queued on
  // `before` so far. KeepFor: the block, once freed, is not reused before the
  // work queued on `stream` by then has run.
  virtual c10::Stream CurrentStream(int index) = 0;
  virtual void Order(const c10::Stream& before, const c10::Stream& after) = 0;
  virtual void KeepFor(const c10::Storage& storage,
                       const c10::Stream& stream) = 0;
  // Behind what is queued on the current stream of the device; nullptr where
  // that cannot be had.
  virtual std::shared_ptr<const TimeMark> MarkTime(int index) = 0;
  // Returns the duration of the work between two marks of one device; nullopt
  // if it is unknown, or not known yet (`wait`: blocks until it is).
  virtual std::optional<double> NanosecondsBetween(const TimeMark& begin,
                                                   const TimeMark& end,
                                                   bool wait) = 0;
  // When that work ran; nullopt: it has not all run yet. Never blocks. An error
  // means that the times will never be known.
  virtual absl::StatusOr<std::optional<HostTimes>> HostTimesBetween(
      int index, const std::shared_ptr<const TimeMark>& begin,
      const std::shared_ptr<const TimeMark>& end) = 0;
  // Waits for all that has been queued, by anyone on any device of the kind.
  // False where that cannot be.
  virtual bool AwaitAll() { return true; }
  // State of PyTorch's own profiler in this process.
  enum class Profiler { kNeverUsed, kAtRest, kActive };
  virtual Profiler profiler() const { return Profiler::kNeverUsed; }
  // Work on the current stream is being captured, not run: nothing may be
  // queued there, and what is saved belongs to the capture. MayBeCapturing
  // reads the state of PyTorch's allocator and makes no driver call.
  virtual bool MayBeCapturing() const { return false; }
  virtual bool IsCapturing() { return false; }

  // The tier below, by the settings; nullptr where they forbid one.
  virtual absl::StatusOr<std::unique_ptr<HostTier>> OpenTier(
      const Settings& settings) = 0;

  // This thread is in an exit handler: what PyTorch keeps for each thread may
  // have been destroyed.
  virtual void BeginExit() {}

  // For pthread_atfork.
  virtual void BeforeFork() = 0;
  virtual void AfterFork() = 0;

 protected:
  Device(c10::DeviceType type, bool is_async, c10::DispatchKey autograd_key,
         c10::DispatchKey autocast_key)
      : type_(type),
        is_async_(is_async),
        autograd_key_(autograd_key),
        autocast_key_(autocast_key) {}

  std::vector<Ledger*> ledgers_;  // by index; complete once it is installed

 private:
  static inline std::atomic<Device*> in_use_ = nullptr;

  const c10::DeviceType type_;
  const bool is_async_;
  const c10::DispatchKey autograd_key_;
  const c10::DispatchKey autocast_key_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_DEVICE_H_
