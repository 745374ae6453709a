#include "tests/cudasim/simulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/cudasim/callers.h"

namespace cudasim {
namespace {

// The handles of default streams: cudaStreamLegacy and cudaStreamPerThread. The
// latter is taken for the former, as without the compiler's switch for it.
constexpr uintptr_t kLegacyHandle = 1;
constexpr uintptr_t kPerThreadHandle = 2;

// Depth of the launch queue of a real device. In the runs of tests/data/h100
// the host is ahead of the device by the time of its last thousand kernels: 57
// ms in the GPT with and without checkpoints, 89 and 90 in the Llama, 223 in
// the Llama with 2.75 times the batch.
constexpr size_t kLaunchQueueDepth = 890;

}  // namespace

Simulator& Simulator::Get() {
  static auto* const simulator = new Simulator(Settings::FromEnvironment());
  return *simulator;
}

Simulator::Simulator(const Settings& given)
    : settings(given),
      host_time(given.host_time),
      heap(given.heap),
      queue(given.heap.devices) {
  queue.set_schedule(settings.schedule);
  if (settings.device) queue.set_depth(kLaunchQueueDepth);
  queue.set_seed(settings.seed);
  if (!calls.FailAll(settings.faults)) {
    fprintf(stderr, "cudasim: CUDASIM_FAIL=%s makes no sense\n",
            settings.faults.c_str());
    abort();
  }
}

const char* Simulator::Intern(const std::string& name) {
  return interned.insert(name).first->c_str();
}

void Simulator::NoteCaller(const char* function) {
  constexpr int kAll = 64;
  const auto callers = [&](int most) {
    return Intern(std::string(function) + " " + Callers(most));
  };
  if (is_traced) trace.push_back(callers(1));
  if (!calls.hit()) return;
  failed = callers(kAll);
  // The program may not live to be asked.
  fprintf(stderr, "cudasim: failed: %s\n", failed);
  if (fault_breaks) Break(failed);
}

void Simulator::Break(const std::string& message) {
  if (broken == nullptr) broken = Intern(message);
}

void Simulator::Observe(const Op& op) const {
  const Activity& activity = op.work.activity;
  if (observer.work == nullptr || activity.sort == Activity::Sort::kNone) {
    return;
  }
  const CudasimDeviceWork work{
      .sort = static_cast<int>(activity.sort),
      .direction = static_cast<int>(activity.direction),
      .name = op.work.name,
      .begin_ns = op.begin,
      .end_ns = op.end,
      .bytes = activity.bytes,
      .device = static_cast<uint32_t>(op.stream->device),
      .stream = op.stream->id};
  observer.work(&work);
}

OpRef Simulator::Push(Stream* stream, Work work, Lock& lock) {
  OpRef op = queue.Push(stream, std::move(work), lock);
  if (!op) return op;
  Observe(*op);
  const std::string hazard = hazards.Check(*op);
  if (!hazard.empty() && hazards_fatal) Break(hazard);
  return op;
}

uint64_t Simulator::NowUnlocked() {
  const uint64_t now = queue.now() + host_time.Asleep();
  uint64_t latest = latest_read;
  while (latest < now && !latest_read.compare_exchange_weak(latest, now)) {
  }
  return std::max(latest, now);
}

ThreadState& Thread() {
  static thread_local ThreadState state;
  return state;
}

Call::Call(const char* function, bool works)
    : simulator_(Simulator::Get()), lock_(simulator_.mutex) {
  if (Thread().aside > 0) function = nullptr;
  const Settings& settings = simulator_.settings;
  is_apart_ = settings.device && (function == nullptr || !IsLookup(function));
  if (is_apart_) simulator_.queue.Pass(simulator_.host_time.Enter());
  if (simulator_.observer.call != nullptr) {
    simulator_.observer.call(function, simulator_.queue.now());
  }
  if (function == nullptr) return;
  if (!settings.device) {
    simulator_.queue.Pass(static_cast<Nanos>(settings.rates.host_us * 1e3));
  } else if (HostTime::Counts()) {
    is_timed_ = true;
    Spend(settings.device->CallTime(function));
  }
  error_ = simulator_.calls.Enter(function);
  if (simulator_.calls.is_work() &&
      (simulator_.calls.hit() || simulator_.is_traced)) {
    simulator_.NoteCaller(function);
  }
  if (error_ == 0 && works && Queue::InHostFunction()) {
    error_ = static_cast<int>(Error::kNotPermitted);
  }
  if (error_ == 0 && works && simulator_.broken != nullptr) {
    error_ = static_cast<int>(Error::kLaunchFailure);
  }
}

Call::~Call() {
  if (is_apart_) simulator_.host_time.Leave();
}

void Call::Spend(double ns) {
  if (is_timed_) simulator_.queue.Pass(static_cast<Nanos>(ns));
}

Nanos Call::KernelTime(Nanos otherwise) {
  // An op without an entry is small: as long as the shortest kernels of the
  // traces (tests/data/h100).
  constexpr Nanos kSmallKernelNs = 2500;
  RunningOp& op = Thread().op;
  if (!op.runs) return simulator_.settings.device ? kSmallKernelNs : otherwise;
  if (op.kernels++ == 0) simulator_.queue.Pass(simulator_.host_time.Op());
  const double share = op.left_ns / std::max(1u, op.kernels_left);
  op.left_ns -= share;
  if (op.kernels_left > 1) --op.kernels_left;
  return static_cast<Nanos>(share);
}

Stream* Call::StreamOf(const void* handle) const {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == 0 || number == kLegacyHandle || number == kPerThreadHandle) {
    return simulator_.queue.legacy(Thread().device);
  }
  auto* const stream = static_cast<Stream*>(const_cast<void*>(handle));
  return simulator_.queue.Has(stream) ? stream : nullptr;
}

}  // namespace cudasim
