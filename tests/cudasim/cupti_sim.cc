#include "tests/cudasim/cupti_sim.h"

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

namespace cudasim {
namespace {

// CUPTI's numbers of the functions that start work.
struct Function {
  const char* name;
  bool driver;
  uint32_t number;
};
constexpr Function kLaunch = {"cudaLaunchKernel", false, 211};
constexpr Function kFunctions[] = {
    kLaunch,
    {"cudaMemcpy", false, 31},
    {"cudaMemcpyAsync", false, 41},
    {"cudaMemcpy2DAsync", false, 44},
    {"cudaMemset", false, 49},
    {"cudaMemsetAsync", false, 51},
    {"cudaMemcpyPeerAsync", false, 161},
    {"cudaGraphLaunch", false, 311},
    {"cuMemsetD32Async", true, 220},
};

constexpr uint32_t kExternalKinds = 6;  // 1 to 5

struct ThreadOfCupti {
  std::array<std::vector<uint64_t>, kExternalKinds> ids;
  uint32_t correlation = 0;  // correlation of the call it is in; 0: of none
};
ThreadOfCupti& ThisThread() {
  static thread_local ThreadOfCupti thread;
  return thread;
}

}  // namespace

CuptiSim& CuptiSim::Get() {
  static auto& sim = *new CuptiSim;
  return sim;
}

CuptiSim::CuptiSim()
    : settings_(CuptiSettings::FromEnvironment()),
      faults_(CuptiFaultsFromEnvironment()) {
  random_.seed(settings_.seed);
}

void CuptiSim::set_clock(uint64_t (*now)()) {
  const Lock lock(mutex_);
  now_ = now;
}

uint32_t CuptiSim::NoteCall(const char* function, uint64_t now) {
  ThisThread().correlation = 0;
  if (function == nullptr || !is_recording_) return 0;
  const Lock lock(mutex_);
  called_ = now;
  for (const Function& known : kFunctions) {
    if (strcmp(known.name, function) == 0) {
      return Call(known.driver, known.number, now);
    }
  }
  return 0;
}

// Under the lock.
uint32_t CuptiSim::Call(bool driver, uint32_t function, uint64_t now) {
  ThreadOfCupti& thread = ThisThread();
  thread.correlation = ++correlations_;
  if (!IsRecorded(driver, function)) return correlations_;
  for (uint32_t kind = 1; kind < kExternalKinds; ++kind) {
    const std::vector<uint64_t>& ids = thread.ids[kind];
    if (ids.empty() || kinds_.count(kExternalKind) == 0) continue;
    Add({.kind = kExternalKind,
         .correlation = correlations_,
         .external_kind = kind,
         .external_id = ids.back()});
  }
  Add({.kind = driver ? kDriverKind : kRuntimeKind,
       .begin = now,
       .end = now,
       .correlation = correlations_,
       .function = function,
       .thread = 1});
  return correlations_;
}

bool CuptiSim::IsRecorded(bool driver, uint32_t function) const {
  return kinds_.count(driver ? kDriverKind : kRuntimeKind) > 0 ||
         functions_.count({driver, function}) > 0;
}

void CuptiSim::NoteWork(CuptiRecord work) {
  if (!is_recording_) return;
  const Lock lock(mutex_);
  if (kinds_.count(work.kind) == 0) return;
  work_ns_ += work.end - work.begin;
  if (ThisThread().correlation == 0) {
    Call(kLaunch.driver, kLaunch.number, work.begin);
    work.correlation = ThisThread().correlation;
    ThisThread().correlation = 0;
  } else {
    work.correlation = ThisThread().correlation;
  }
  Add(work);
}

void CuptiSim::Add(CuptiRecord record) {
  if (ticks_ != nullptr) record.ahead = ticks_() - called_;
  pending_.push_back(record);
  Reserve();
  const bool deliver = settings_.deliver_every > 0 &&
                       pending_.size() % settings_.deliver_every == 0;
  if (deliver && callbacks_.request != nullptr) Want(false);
}

// Under the lock.
void CuptiSim::Reserve() {
  if (callbacks_.request == nullptr || pending_.empty() ||
      reserved_.buffer.begin != nullptr) {
    return;
  }
  reserved_ = RequestCuptiBuffer(callbacks_);
  if (reserved_.buffer.begin == nullptr) ++stats_.declined;
}

int CuptiSim::Enter(const char* function) {
  const Lock lock(mutex_);
  const int result = faults_.Enter(function);
  if (result != 0) ++stats_.failed;
  return result;
}

uint32_t CuptiSim::version() {
  const Lock lock(mutex_);
  return static_cast<uint32_t>(settings_.version);
}

int CuptiSim::Subscribe(void** subscriber) {
  const Lock lock(mutex_);
  if (settings_.subscribed != 0 || is_subscribed_) {
    return kCuptiOneSubscriberOnly;
  }
  is_subscribed_ = true;
  *subscriber = this;
  return kCuptiOk;
}

int CuptiSim::Unsubscribe(const void* subscriber) {
  const Lock lock(mutex_);
  if (!is_subscribed_ || subscriber != this) return kCuptiInvalidParameter;
  is_subscribed_ = false;
  return kCuptiOk;
}

int CuptiSim::Register(const CuptiCallbacks& callbacks) {
  if (callbacks.request == nullptr || callbacks.complete == nullptr) {
    return kCuptiInvalidParameter;
  }
  const Lock lock(mutex_);
  callbacks_ = callbacks;
  return kCuptiOk;
}

void CuptiSim::RegisterTicks(uint64_t (*ticks)()) {
  const Lock lock(mutex_);
  ticks_ = ticks;
}

int CuptiSim::Enable(uint32_t kind, bool enable) {
  if (CuptiSizeOf(kind, version()) == 0) return kCuptiInvalidKind;
  const Lock lock(mutex_);
  if (enable) {
    kinds_.insert(kind);
  } else {
    kinds_.erase(kind);
    if (kind == kKernelKind) stats_.work_ns = work_ns_;
  }
  is_recording_ = !kinds_.empty() || !functions_.empty();
  return kCuptiOk;
}

void CuptiSim::EnableCall(bool driver, uint32_t function, bool enable) {
  const Lock lock(mutex_);
  if (enable) {
    functions_.insert({driver, function});
  } else {
    functions_.erase({driver, function});
  }
  is_recording_ = !kinds_.empty() || !functions_.empty();
}

// Under the lock. The number of the delivery.
uint64_t CuptiSim::Want(bool forced) {
  ++wanted_;
  if (forced) forced_ = wanted_;
  // Not before: most programs that have this library never record anything.
  if (!std::exchange(has_thread_, true)) {
    std::thread([this] { RunThread(); }).detach();
  }
  changed_.notify_all();
  return wanted_;
}

int CuptiSim::Flush(bool forced) {
  Lock lock(mutex_);
  if (callbacks_.request == nullptr) return kCuptiInvalidOperation;
  const uint64_t number = Want(forced);
  if (settings_.late_us == 0) {
    changed_.wait(lock, [&] { return done_ >= number; });
  }
  return kCuptiOk;
}

size_t CuptiSim::TakeDropped() { return untaken_drops_.exchange(0); }

// The device buffers' limit is the one that there is.
int CuptiSim::Attribute(uint32_t attribute, size_t* size, void* value,
                        bool set) {
  constexpr uint32_t kDeviceBufferPoolLimit = 2;
  if (attribute != kDeviceBufferPoolLimit) return kCuptiInvalidParameter;
  if (*size < sizeof device_buffers_) return kCuptiTooSmall;
  const Lock lock(mutex_);
  if (set) {
    memcpy(&device_buffers_, value, sizeof device_buffers_);
  } else {
    memcpy(value, &device_buffers_, sizeof device_buffers_);
  }
  return kCuptiOk;
}

int CuptiSim::Set(const std::string& name, int64_t value) {
  const Lock lock(mutex_);
  if (!settings_.Set(name, value)) return 1;
  if (name == "seed") random_.seed(value);
  return 0;
}

void CuptiSim::Fail(const char* function, int64_t after, int64_t times,
                    int result) {
  const Lock lock(mutex_);
  faults_.Fail(function, after, times, result);
}

uint64_t CuptiSim::calls(const char* function) {
  const Lock lock(mutex_);
  return faults_.count(function);
}

CuptisimStats CuptiSim::stats() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == wanted_; });
  CuptisimStats stats = stats_;
  stats.enabled = kinds_.size() + functions_.size();
  stats.pending = pending_.size();
  stats.device_buffers = device_buffers_;
  return stats;
}

void CuptiSim::Release() {
  const Lock lock(mutex_);
  release_ = true;
}

void CuptiSim::Reset() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == wanted_; });
  settings_ = CuptiSettings::FromEnvironment();
  random_.seed(settings_.seed);
  faults_ = CuptiFaultsFromEnvironment();
  kinds_.clear();
  functions_.clear();
  is_recording_ = false;
  is_subscribed_ = false;
  ticks_ = nullptr;
  device_buffers_ = 250;
  pending_.clear();
  if (reserved_.buffer.begin != nullptr) {
    held_.push_back(std::exchange(reserved_, {}).buffer);
  }
  release_ = false;
  untaken_drops_ = 0;
  stats_ = {};
  work_ns_ = 0;
}

std::vector<CuptiRecord> CuptiSim::TakeComplete(uint64_t now, bool forced) {
  std::vector<CuptiRecord> taken;
  std::vector<CuptiRecord> left;
  for (CuptiRecord& record : pending_) {
    const bool complete = !record.is_work() || record.end <= now;
    if (!complete && !forced) {
      left.push_back(record);
      continue;
    }
    if (!complete) {
      record.begin = record.end = 0;
      ++stats_.timeless;
    } else if (record.end != 0) {
      record.begin += record.ahead;
      record.end += record.ahead;
    }
    taken.push_back(record);
  }
  pending_ = std::move(left);
  return taken;
}

// One delivery, for all that are wanted. The lock is released meanwhile.
void CuptiSim::Deliver(Lock& lock) {
  const CuptiSettings settings = settings_;
  uint64_t (*const clock)() = now_;
  lock.unlock();
  if (settings.late_us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(settings.late_us));
  }
  const uint64_t now = clock == nullptr ? 0 : clock();
  lock.lock();
  const uint64_t number = wanted_;
  const CuptiCallbacks callbacks = callbacks_;
  std::vector<CuptiRecord> records = TakeComplete(now, forced_ > done_);
  CuptiRequested first;
  if (!records.empty()) first = std::exchange(reserved_, {});
  Reserve();
  std::vector<CuptiBuffer> held;
  if (std::exchange(release_, false)) held.swap(held_);
  lock.unlock();
  for (const CuptiBuffer& buffer : held) {
    callbacks.complete(nullptr, 0, buffer.begin, buffer.size, buffer.valid);
  }
  const CuptiDelivered delivered =
      DeliverCupti(std::move(records), first, settings, callbacks,
                   &untaken_drops_, &random_);
  lock.lock();
  stats_.dropped += delivered.dropped;
  stats_.declined += delivered.declined;
  stats_.cut += delivered.cut;
  stats_.buffers += delivered.buffers;
  stats_.held += delivered.held.size();
  held_.insert(held_.end(), delivered.held.begin(), delivered.held.end());
  done_ = number;
  changed_.notify_all();
}

void CuptiSim::RunThread() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ > done_; });
    Deliver(lock);
  }
}

void PushCuptiId(uint32_t kind, uint64_t id) {
  ThisThread().ids[kind % kExternalKinds].push_back(id);
}

bool PopCuptiId(uint32_t kind, uint64_t* id) {
  std::vector<uint64_t>& ids = ThisThread().ids[kind % kExternalKinds];
  if (ids.empty()) return false;
  if (id != nullptr) *id = ids.back();
  ids.pop_back();
  return true;
}

}  // namespace cudasim
