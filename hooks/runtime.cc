#include "hooks/runtime.h"

#include <pthread.h>
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "allocator/torch_cpu_allocator.h"
#include "hooks/busy.h"
#include "hooks/engine.h"
#include "hooks/recovery.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Ledger& TheLedger() { return HostAllocator::Global().ledger(); }

}  // namespace

Runtime& Runtime::Global() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

bool Runtime::WantsHooks() const { return state_ == State::kWatch; }

absl::Status Runtime::Start(const Settings& settings) {
  settings_ = settings;
  HostAllocator& allocator = HostAllocator::Global();
  if (settings.budget) allocator.SetBudget(*settings.budget);
  allocator.SetPressureHandler(
      [](Bytes needed) { return Runtime::Global().Relieve(needed); });
  if (!settings.spill_dir.empty()) {
    const absl::Status opened =
        residency_.OpenSpill(settings.spill_dir, settings.spill_limit);
    if (!opened.ok()) return opened;
  }
  InstallCpuAllocator();
  InstallEngine();
  InstallRecorder(this);
  pthread_atfork(
      [] {
        RuntimeLock::Mutex().lock();
        HostAllocator::Global().BeforeFork();
      },
      [] {
        HostAllocator::Global().AfterFork();
        RuntimeLock::Mutex().unlock();
      },
      [] {
        HostAllocator::Global().AfterFork();
        RuntimeLock::Mutex().unlock();
        Runtime::Global().state_ = State::kOff;
        Runtime::Global().settings_.log = Settings::Log::kOff;
        Runtime::Global().settings_.report.clear();
      });
  state_ = State::kWatch;
  EnableRecorder(true);
  return absl::OkStatus();
}

void Runtime::BeginPair() {
  CloseStep();
  tape_ = std::make_shared<Tape>();
  residency_.Add(tape_);
  in_pair_ = true;
  in_backward_ = false;
  owner_ = std::this_thread::get_id();
  report_.persistent = TheLedger().live();
}

void Runtime::CloseStep() {
  static double begun = 0;
  const double now = Seconds();
  if (begun > 0) {
    report_.step_times.push_back(now - begun);
    if (settings_.budget && TheLedger().Peak() > *settings_.budget) {
      ++report_.over_budget_steps;
    }
  }
  begun = now;
  ++report_.steps;
  TheLedger().ResetPeak();
}

void Runtime::BeginBackward() {
  in_backward_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [tape = std::weak_ptr<Tape>(tape_)] {
        const RuntimeLock lock;
        const Busy busy;
        Runtime& runtime = Runtime::Global();
        if (tape.lock() == runtime.tape_) runtime.EndPair();
      });
}

void Runtime::EndPair() {
  in_pair_ = false;
  in_backward_ = false;
}

bool Runtime::Relieve(Bytes needed) {
  // Another thread may hold the lock for as long as a replay takes.
  std::unique_lock<std::recursive_timed_mutex> lock(
      RuntimeLock::Mutex(), std::chrono::milliseconds(200));
  if (!lock.owns_lock() || state_ == State::kOff) return false;
  const Busy busy;
  return residency_.Relieve(needed);
}

void Runtime::TurnOff(const std::string& why) {
  state_ = State::kOff;
  EnableRecorder(false);
  if (settings_.log != Settings::Log::kOff) {
    std::fprintf(stderr, "ebbtide: off: %s\n", why.c_str());
  }
  report_.reason = why;
}

std::string Runtime::Finish() {
  const RuntimeLock lock;
  CloseStep();
  --report_.steps;  // opened by the line above
  report_.peak = TheLedger().RunPeak();
  report_.ops_replayed = residency_.counts().ops_replayed;
  report_.bytes_dropped = residency_.counts().bytes_dropped;
  report_.bytes_spilled = residency_.counts().bytes_spilled;
  if (settings_.budget) report_.budget = *settings_.budget;
  report_.state = state_ == State::kWatch  ? "watch"
                  : state_ == State::kIdle ? "idle"
                                           : "off";
  if (!settings_.report.empty()) {
    const absl::Status written = WriteReport(report_, settings_.report);
    if (!written.ok()) {
      std::fprintf(stderr, "ebbtide: %s\n",
                   std::string(written.message()).c_str());
    }
  }
  return settings_.log == Settings::Log::kOff ? "" : ClosingLine(report_);
}

}  // namespace ebbtide
