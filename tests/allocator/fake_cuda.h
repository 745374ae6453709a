// A CUDA runtime in memory. Work given to a stream runs only when a test steps
// it or a call waits for it, so that unordered work can be made to run in the
// wrong order; copies really move bytes. It fails any call on request, adds a
// failure to the test for calls that CUDA does not allow, and at its end for
// everything that was not given back.
//
// One at a time. Thread-safe, except for what sets it up.
#ifndef EBBTIDE_TESTS_ALLOCATOR_FAKE_CUDA_H_
#define EBBTIDE_TESTS_ALLOCATOR_FAKE_CUDA_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "allocator/cuda_api.h"

namespace ebbtide {

class FakeCuda {
 public:
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  const CudaApi* api() const { return &api_; }

  // The program's side: device 0's default stream is nullptr.
  cudaStream_t NewStream(int device = 0);
  void Launch(cudaStream_t stream, const std::function<void()>& kernel,
              double seconds = 0);

  // The streams made through the API, in order.
  cudaStream_t Made(size_t index) const { return made_.at(index); }
  // A held stream runs nothing.
  void Hold(cudaStream_t stream, bool held = true);
  // Everything that can run, streams taking turns; or one operation of any, or
  // of one. False: none can run.
  void Run();
  bool Step(std::mt19937& random);
  bool StepOn(cudaStream_t stream);
  bool IsIdle(cudaStream_t stream);  // also after its end

  // Seconds on the device's clock, and how fast it copies.
  double bytes_per_second_out = 1e9;
  double bytes_per_second_back = 1e9;
  // Sizes of each cudaMemcpyAsync.
  std::vector<size_t> parts;
  // Host ranges that are registered.
  std::map<char*, size_t> registered;
  // cudaHostRegister refuses, after so many more.
  std::optional<int> registrations_left;
  // Some thread captures in the global mode: calls that would break that are
  // failures unless their thread is in the relaxed mode.
  bool captures_elsewhere = false;
  // Runs at every call, on its thread.
  std::function<void()> on_call;

  // The call with this number (from 0), of those counted by calls(), fails, and
  // so do as many as there are behind it.
  void FailCall(int64_t number, cudaError_t error, int64_t count = 1);
  // Every call fails from now on and nothing runs any more.
  void Break();
  int64_t calls() const { return calls_; }
  // The name of the call that was made to fail.
  const std::string& failed() const { return failed_; }
  int live_streams() const { return live_streams_; }
  int live_events() const { return static_cast<int>(events_.size()); }
  // Devices to which calls of this thread go, or went while a stream or event
  // was made.
  static int& current_device();
  std::vector<int> devices_of_made;
  static cudaError_t& last_error();

 private:
  struct Record {
    bool done = true;
    double at = 0;
  };
  struct Event {
    unsigned flags = 0;
    int device = 0;
    std::shared_ptr<Record> record;
  };
  struct Stream;
  struct Operation {
    std::shared_ptr<Record> after;  // may be null
    std::function<void(Stream&)> run;
  };
  struct Stream {
    int device = 0;
    bool held = false;
    bool destroyed = false;
    double now = 0;
    std::deque<Operation> queue;
  };
  friend struct FakeCalls;

  static CudaApi Table();
  static cudaStreamCaptureMode& capture_mode();
  cudaError_t Enter(const char* name, bool breaks_captures = false);
  Stream& At(cudaStream_t stream);
  Event* Find(cudaEvent_t event);
  bool CanStep(const Stream& stream) const;
  void StepOne(Stream& stream);
  bool StepAll();
  bool RunUntil(const Record& record);
  bool IsRegistered(const char* host, size_t size, bool* crosses) const;

  static inline FakeCuda* live_ = nullptr;

  CudaApi api_;
  std::recursive_mutex mutex_;
  std::deque<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> defaults_;
  std::vector<cudaStream_t> made_;
  std::set<Event*> events_;
  int live_streams_ = 0;
  int64_t calls_ = 0;
  int64_t fail_at_ = -1;
  int64_t fail_count_ = 1;
  cudaError_t fail_with_ = cudaSuccess;
  std::string failed_;
  bool broken_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_FAKE_CUDA_H_
