// The simulated CUPTI behind its C face: what is enabled, the stacks of
// external ids, the records that are waiting, and the thread that delivers
// them.
#ifndef EBBTIDE_TESTS_CUDASIM_CUPTI_SIM_H_
#define EBBTIDE_TESTS_CUDASIM_CUPTI_SIM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cudasim/calls.h"
#include "tests/cudasim/cupti_control.h"
#include "tests/cudasim/cupti_delivery.h"
#include "tests/cudasim/cupti_record.h"

namespace cudasim {

// Thread-safe. Buffers are completed without its lock, but may be asked for
// with it, as CUPTI does.
class CuptiSim {
 public:
  // Never destroyed: its thread outlives main.
  static CuptiSim& Get();

  // The simulator of the device provides the clock and the events: a call of
  // this thread, and the work that it starts (of kind, times, device, stream,
  // bytes, direction and name). Work belongs to the call before it, or where
  // that is of none to a launch of its own, as in a library. The clock is read
  // without locks of this class.
  void set_clock(uint64_t (*now)());
  // A null function, or one that starts no work: what follows is of none.
  uint32_t NoteCall(const char* function, uint64_t now);
  void NoteWork(CuptiRecord work);

  // Counts a call; 0 or the result that it is to return.
  int Enter(const char* function);
  uint32_t version();
  int Subscribe(void** subscriber);
  int Unsubscribe(const void* subscriber);
  int Register(const CuptiCallbacks& callbacks);
  // Times are of that clock from now on: what it shows when a call is made, and
  // from there one tick for a nanosecond. Nothing takes it back.
  void RegisterTicks(uint64_t (*ticks)());
  int Enable(uint32_t kind, bool enable);
  void EnableCall(bool driver, uint32_t function, bool enable);
  int Flush(bool forced);
  size_t TakeDropped();
  int Attribute(uint32_t attribute, size_t* size, void* value, bool set);

  int Set(const std::string& name, int64_t value);
  void Fail(const char* function, int64_t after, int64_t times, int result);
  uint64_t calls(const char* function);
  CuptisimStats stats();
  void Release();
  void Reset();

 private:
  using Lock = std::unique_lock<std::mutex>;
  CuptiSim();
  bool IsRecorded(bool driver, uint32_t function) const;
  void Add(CuptiRecord record);
  void Reserve();
  uint32_t Call(bool driver, uint32_t function, uint64_t now);
  uint64_t Want(bool forced);
  std::vector<CuptiRecord> TakeComplete(uint64_t now, bool forced);
  void Deliver(Lock& lock);
  void RunThread();

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t (*now_)() = nullptr;
  CuptiSettings settings_;
  std::mt19937_64 random_;  // used by the delivering thread
  Calls faults_;
  CuptiCallbacks callbacks_;
  std::set<uint32_t> kinds_;
  std::set<std::pair<bool, uint32_t>> functions_;  // by driver
  std::atomic<bool> is_recording_ = false;         // anything is enabled
  bool has_thread_ = false;
  uint64_t work_ns_ = 0;
  uint64_t (*ticks_)() = nullptr;
  uint64_t called_ = 0;  // the virtual clock at the last call
  bool is_subscribed_ = false;
  size_t device_buffers_ = 250;
  std::vector<CuptiRecord> pending_;
  // Asked for as soon as there is a record, on the thread that makes it.
  CuptiRequested reserved_;
  std::vector<CuptiBuffer> held_;
  bool release_ = false;
  uint32_t correlations_ = 0;  // so far
  std::atomic<size_t> untaken_drops_ = 0;
  CuptisimStats stats_{};
  // Deliveries, by number: asked for, asked for by force, done.
  uint64_t wanted_ = 0;
  uint64_t forced_ = 0;
  uint64_t done_ = 0;
};

// External ids of this thread of a kind.
void PushCuptiId(uint32_t kind, uint64_t id);
bool PopCuptiId(uint32_t kind, uint64_t* id);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CUPTI_SIM_H_
