#include "tests/cudasim/control.h"

#include <cstring>
#include <memory>

#include "tests/cudasim/simulator.h"

using cudasim::Call;
using cudasim::Error;
using cudasim::Stream;

namespace {

std::optional<uint8_t> PoisonOf(int byte) {
  if (byte < 0) return std::nullopt;
  return static_cast<uint8_t>(byte);
}

// The argument of queued work, destroyed after the last run.
class Argument {
 public:
  explicit Argument(const CudasimWork& work)
      : function_(work.function),
        destroy_(work.destroy),
        argument_(work.argument) {}
  ~Argument() {
    if (destroy_ != nullptr) destroy_(argument_);
  }
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  void Run() const {
    if (function_ != nullptr) function_(argument_);
  }

 private:
  CudasimFunction function_;
  CudasimFunction destroy_;
  void* argument_;
};

// Fresh memory is poisoned by the heap, memory that an allocator hands out
// again here, in the order of the stream that may use it.
void Poison(Call* call, const void* begin, size_t size, Stream* stream) {
  const auto byte = (*call)->heap.poison();
  if (!byte || stream->capture || !(*call)->heap.Covers(begin, size)) return;
  cudasim::Work work;
  work.name = "poison";
  std::byte* const bytes = (*call)->heap.Bytes(begin);
  work.move = [=] { memset(bytes, *byte, size); };
  work.accesses = {{begin, size, true}};
  (*call)->Push(stream, std::move(work), call->lock());
}

void Take(Call* call, const void* begin, size_t size, Stream* stream) {
  // Noted uses add up; those the host has waited for can never be hazards.
  constexpr uint64_t kTakenBetweenForgets = 256;
  if (++(*call)->blocks_taken % kTakenBetweenForgets == 0) {
    (*call)->hazards.Forget((*call)->queue.host_order());
  }
  (*call)->hazards.Taken(begin, size, stream);
  if (stream != nullptr) Poison(call, begin, size, stream);
}

}  // namespace

extern "C" {

void cudasim_stats(CudasimStats* out) {
  const Call call(nullptr);
  *out = {};
  out->device_bytes = call->heap.total();
  out->device_peak = call->heap.peak();
  out->device_allocations = call->heap.allocations();
  out->live_allocations = call->heap.live();
  out->pinned_bytes = call->host.bytes();
  out->pinned_peak = call->host.peak();
  out->kernels = call->kernels;
  out->copies = call->copies;
  out->copied_bytes = call->copied_bytes;
  out->memsets = call->memsets;
  out->pending = call->queue.pending();
  out->executed = call->queue.executed();
  out->out_of_bounds = call->out_of_bounds;
  out->hazards = call->hazards.messages().size();
  out->now_ns = call->queue.now();
  out->cpu_ns = call->host_time.main().cpu_ns;
  out->backward_cpu_ns = call->host_time.autograd().cpu_ns;
  out->ops = call->host_time.main().ops;
  out->backward_ops = call->host_time.autograd().ops;
  out->reservations = call->heap.reservations();
  out->live_events = call->live_events;
}

void cudasim_op_begin(double ns, unsigned kernels) {
  cudasim::HostTime::Count();
  cudasim::RunningOp& op = cudasim::Thread().op;
  op = {.runs = true, .left_ns = ns, .kernels_left = kernels};
}

unsigned cudasim_op_end() {
  cudasim::RunningOp& op = cudasim::Thread().op;
  op.runs = false;
  return op.kernels;
}

void cudasim_pause_begin() {
  Call call(nullptr);
  call.Pause();
}

void cudasim_pause_end() {
  Call call(nullptr);
  call.Resume();
}

uint64_t cudasim_now_ns() { return cudasim::Simulator::Get().NowUnlocked(); }

double cudasim_product_flops() {
  const auto& device = cudasim::Simulator::Get().settings.device;
  return device ? device->product_flops : 0;
}

double cudasim_memory_bytes() {
  const auto& device = cudasim::Simulator::Get().settings.device;
  return device ? device->memory_bytes : 0;
}

void cudasim_set_capacity(uint64_t bytes) {
  Call(nullptr)->heap.set_capacity(bytes);
}

void cudasim_set_schedule(int schedule) {
  Call(nullptr)->queue.set_schedule(static_cast<cudasim::Schedule>(schedule));
}

void cudasim_set_seed(uint64_t seed) { Call(nullptr)->queue.set_seed(seed); }

void cudasim_set_rates(double h2d_gbps, double d2h_gbps, double kernel_us,
                       double host_us) {
  cudasim::Rates& rates = Call(nullptr)->settings.rates;
  rates.h2d_gbps = h2d_gbps;
  rates.d2h_gbps = d2h_gbps;
  rates.kernel_us = kernel_us;
  rates.host_us = host_us;
}

void cudasim_set_poison(int byte) {
  Call(nullptr)->heap.set_poison(PoisonOf(byte));
}

void cudasim_advance_ns(uint64_t ns) {
  Call call(nullptr);
  call->queue.Advance(ns, call.lock());
}

void cudasim_fail(const char* function, int64_t after, int64_t times,
                  int error) {
  Call(nullptr)->calls.Fail(function, after, times, error);
}

uint64_t cudasim_calls(const char* function) {
  return Call(nullptr)->calls.count(function);
}

void cudasim_fail_one(int64_t after, int error, int breaks) {
  const Call call(nullptr);
  call->calls.FailOne(after, error);
  call->failed = nullptr;
  call->fault_breaks = breaks != 0;
}

uint64_t cudasim_all_calls() { return Call(nullptr)->calls.total(); }

const char* cudasim_failed() { return Call(nullptr)->failed; }

void cudasim_trace_calls() {
  const Call call(nullptr);
  call->trace.clear();
  call->is_traced = true;
}

const char* cudasim_traced(size_t n) {
  const Call call(nullptr);
  return n < call->trace.size() ? call->trace[n] : nullptr;
}

int cudasim_peek(const void* device, void* out, size_t size) {
  const Call call(nullptr);
  if (!call->heap.Covers(device, size)) return int(Error::kInvalidValue);
  memcpy(out, call->heap.Bytes(device), size);
  return 0;
}

int cudasim_poke(void* device, const void* in, size_t size) {
  const Call call(nullptr);
  if (!call->heap.Covers(device, size)) return int(Error::kInvalidValue);
  memcpy(call->heap.Bytes(device), in, size);
  return 0;
}

void* cudasim_bytes(const void* device, size_t size) {
  const Call call(nullptr);
  const auto& heap = call->heap;
  if (heap.IsDevice(device) && !heap.Covers(device, size)) return nullptr;
  return heap.Bytes(device);
}

int cudasim_is_capturing(void* handle) {
  const Call call(nullptr);
  const Stream* const stream = call.StreamOf(handle);
  return stream != nullptr && stream->capture ? 1 : 0;
}

int cudasim_enter(const char* function) { return Call(function).error(); }

int cudasim_enqueue(void* handle, const CudasimWork* given) {
  Call call(nullptr);
  const auto argument = std::make_shared<Argument>(*given);
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return int(Error::kInvalidResourceHandle);
  cudasim::Work work;
  work.name = call->Intern(given->name);
  work.cost = static_cast<cudasim::Nanos>(given->ns);
  if (work.cost > 0) {
    work.activity.sort = cudasim::Activity::Sort::kKernel;
    work.cost = call.KernelTime(work.cost);
  }
  if (given->function != nullptr) work.call = [argument] { argument->Run(); };
  for (size_t i = 0; i < given->access_count; ++i) {
    const CudasimAccess& access = given->accesses[i];
    work.accesses.push_back({access.begin, access.size, access.write != 0});
  }
  call->Push(stream, std::move(work), call.lock());
  return 0;
}

int cudasim_wait(void* handle) {
  Call call(nullptr);
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return int(Error::kInvalidResourceHandle);
  call->queue.WaitStream(stream, call.lock());
  return 0;
}

void cudasim_shadow_begin() { ++cudasim::Thread().shadowed; }
void cudasim_shadow_end() { --cudasim::Thread().shadowed; }
void cudasim_aside_begin() { ++cudasim::Thread().aside; }
void cudasim_aside_end() { --cudasim::Thread().aside; }

void cudasim_block_taken(const void* block, size_t size) {
  Call call(nullptr);
  Take(&call, block, size, nullptr);
}

void cudasim_block_taken_on(const void* block, size_t size, void* stream) {
  Call call(nullptr);
  // A default stream's handle does not say of which device.
  const int device = call->heap.DeviceOf(block);
  Stream* const owner = stream == nullptr && device >= 0
                            ? call->queue.legacy(device)
                            : call.StreamOf(stream);
  Take(&call, block, size, owner);
}

void cudasim_block_freed(const void* block, size_t) {
  const Call call(nullptr);
  Stream* const stream = call->hazards.StreamOf(block);
  std::string hazard;
  // An allocator of mapped pages orders streams when they are used again.
  if (stream != nullptr && call->queue.Has(stream) &&
      !call->heap.IsMapped(block)) {
    hazard = call->hazards.Freed(block, call->queue.OrderOf(stream).get());
  } else {
    hazard = call->hazards.Freed(block, nullptr);
  }
  if (!hazard.empty() && call->hazards_fatal) call->Break(hazard);
}

const char* cudasim_hazard(size_t n) {
  const Call call(nullptr);
  const auto& messages = call->hazards.messages();
  return n < messages.size() ? call->Intern(messages[n]) : nullptr;
}

void cudasim_set_hazards_fatal(int fatal) {
  Call(nullptr)->hazards_fatal = fatal != 0;
}

void cudasim_observe(const CudasimObserver* observer) {
  cudasim::Simulator::observer = *observer;
}

void cudasim_break(const char* message) { Call(nullptr)->Break(message); }

const char* cudasim_broken() { return Call(nullptr)->broken; }

void cudasim_mend() {
  const Call call(nullptr);
  call->broken = nullptr;
  call->hazards.Clear();
}

}  // extern "C"
