#include "hooks/runtime.h"

#include <pthread.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hooks/busy.h"
#include "hooks/coverage.h"
#include "hooks/cuda_start.h"
#include "hooks/device.h"
#include "hooks/engine.h"
#include "hooks/guarded.h"
#include "hooks/last_words.h"
#include "hooks/outside.h"
#include "hooks/rank.h"
#include "hooks/recovery.h"
#include "hooks/run_log.h"
#include "hooks/runtime_lock.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

// Time limit for an allocation that waits for the runtime's lock in order to
// evict. PyTorch may allocate under the lock of a random generator, which the
// runtime takes under its own, or with the interpreter's lock held, so the wait
// must end. It is longer where the allocation fails otherwise.
std::chrono::milliseconds Patience() {
  return std::chrono::milliseconds(Device::Get().is_async() ? 5000 : 200);
}

// Tags the parameters, and their gradients, of the backward that ends on this
// thread. For the timeline; plans do not look at it.
void TagParameters() {
  const void* parameter = nullptr;
  const auto tag = [&parameter](const at::Tensor& tensor, Kind kind) {
    if (!IsPlainTensor(tensor) || IsAway(tensor.storage())) return;
    RunLog::Global().Tag(tensor.storage().data(), kind, parameter);
  };
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  if (nodes == nullptr) return;
  for (torch::autograd::Node* node : *nodes) {
    const auto* sum = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    if (sum == nullptr) continue;
    if (!sum->variable.has_storage()) continue;
    parameter = sum->variable.storage().unsafeGetStorageImpl();
    tag(sum->variable, Kind::kParameter);
    tag(sum->variable.grad(), Kind::kGradient);
  }
}

}  // namespace

const char* Runtime::NameOf(State state) {
  switch (state) {
    case Runtime::State::kOff:
      return "off";
    case Runtime::State::kWatch:
      return "watch";
    case Runtime::State::kIdle:
    case Runtime::State::kResting:
      return "idle";
    case Runtime::State::kActive:
      return "active";
    case Runtime::State::kSteady:
      return "steady";
  }
  return "";
}

double Runtime::Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Runtime& Runtime::Global() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

bool Runtime::WantsHooks() const {
  return IsManaging() || is_new_child_ ||
         (state_ == State::kIdle && Count(ledger().live()) > idle_until_);
}

absl::Status Runtime::Start(const Settings& settings) {
  settings_ = settings;
  started_at_ = std::filesystem::file_time_type::clock::now();
  faults_of_children_ = FaultsOfChildren();
  pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
  books_.SetBound(settings.signatures);
  SetLeastManaged(Count(settings.min_bytes));
  if (settings.cupti) watch_.kernels().Allow();
  InstallGuard([](void* block) { Runtime::Global().BeforeFree(block); });
  residency_.SetSpeaker([this](const std::string& line) { SayHere(line); });
  residency_.SetMismatchHandler(
      [this](Tape* tape, int storage) { OnMismatch(*tape, storage); });
  const bool has_work = settings.budget || !settings.record.empty();
  if (has_work) {
    absl::Status entered = Enter(&Device::Get());
    if (!entered.ok()) return entered;
  }
  InstallEngine();
  InstallRecorder(this);
  if (has_work) {
    Begin();
  } else {
    off_because_ = "the CPU has no budget";
  }
  return absl::OkStatus();
}

absl::Status Runtime::Enter(Device* device) {
  std::unique_ptr<HostTier> tier;
  if (settings_.budget) {
    RunLog::Global().SetBudget(*settings_.budget);
    auto opened = device->OpenTier(settings_);
    // A default that cannot be used costs speed; what the user named is asked
    // for.
    if (!opened.ok() && settings_.spill_required) return opened.status();
    if (opened.ok()) {
      tier = *std::move(opened);
    } else {
      Say(absl::StrCat("no ", device->tier_words().moving, ": ",
                       opened.status().message()));
    }
  }
  absl::Status installed = device->Install(
      settings_, {.relieve =
                      [](const Pressure& pressure) {
                        return Runtime::Global().Relieve(pressure);
                      },
                  .on_overrun =
                      [](Bytes wanted, Bytes budget) {
                        Runtime::Global().OnOverrun(wanted, budget);
                      },
                  .explain =
                      [](Bytes request) {
                        return Runtime::Global().ReportOutOfMemory(0, "cpu",
                                                                   request);
                      }});
  if (!installed.ok()) return installed;
  residency_.SetTier(std::move(tier));
  StartWeights();
  return installed;
}

void Runtime::Begin() {
  is_started_ = true;
  state_ = State::kWatch;
  EnableRecorder(true);
}

void Runtime::BeginPair() {
  // A second pass over a graph ends without the callback of BeginBackward.
  SettleWitnesses();
  const Bytes peak = ledger().Peak();
  const Bytes bounded = Device::Get().StepPeak(device_);
  if (!std::exchange(has_trained_, true)) OnFirstPair();
  CloseStep();
  device_ = Device::Get().CurrentIndex();
  Decide(peak, bounded);
  EnableRecorder(!IsUnrecorded() && state_ != State::kIdle);
  if (state_ == State::kIdle) return;
  auto tape = std::make_shared<Tape>();
  tape->device = device_;
  tape->may_recompute = settings_.recompute;
  if (tape_ != nullptr && !IsUnrecorded()) tape->Reserve(*tape_);
  tape_ = std::move(tape);
  residency_.Add(tape_);
  watch_.BeginPair(tape_.get(), WantsWork(), WantsMarks());
  residency_.MeasureCopies(!IsUnrecorded() && watch_.has_marks());
  TellCupti();
  in_backward_ = false;
  has_foreign_hooks_ = false;
  complete_ = false;
  as_planned_ = false;
  saves_ = 0;
  backward_tape_.reset();
  foreign_saves_ = 0;
  steady_run_.reset();
  expected_ = nullptr;
  if (IsUnrecorded()) {
    steady_run_ = std::make_unique<SteadyRun>(steady_plan_);
    tape_->storages.reserve(steady_plan_->storages);
  }
  results_before_ = verifier_.results();
  owner_ = std::this_thread::get_id();
  report_.persistent = ledger().live();
  may_leave_ = false;
  in_pair_ = true;
}

void Runtime::BeginBackward() {
  in_backward_ = true;
  unpacking_ = nullptr;
  // Only writes by the backward's ops matter, to what may have been evicted.
  if (in_pair_ && !settings_.budget) EnableRecorder(false);
  NoteCoverage();
  NoteKept();
  // Autograd holds most at this point: backward only frees.
  const BytesByKind live = ledger().LiveByKind();
  report_.peak_activations =
      std::max(report_.peak_activations,
               live[static_cast<int>(Kind::kSaved)] + SavedFromOutside(*tape_));
  // Goes with the graph task, also where an exception ends it.
  const auto observe = [tape = std::weak_ptr<Tape>(tape_)](void*) {
    const RuntimeLock lock;
    Runtime& runtime = Runtime::Global();
    if (tape.lock() == runtime.tape_) runtime.ObserveAgain();
  };
  torch::autograd::Engine::get_default_engine().queue_callback(
      [tape = std::weak_ptr<Tape>(tape_),
       end = std::shared_ptr<void>(nullptr, observe)] {
        const RuntimeLock lock;
        const Busy busy;
        Runtime& runtime = Runtime::Global();
        if (tape.lock() == runtime.tape_ && runtime.in_pair_) {
          runtime.complete_ = true;
          if (RunLog::Global().TakesDetail()) TagParameters();
          runtime.EndPair();
          runtime.SettleWitnesses();
        }
      });
}

void Runtime::SettleWitnesses() {
  const OpInfo* misled = nullptr;
  try {
    misled = FindMisled();
  } catch (const std::exception& error) {
    return TurnOff(error.what());
  }
  if (misled != nullptr) ThrowMisled(*misled);
}

void Runtime::EndPair() {
  if (!in_pair_) return;
  in_pair_ = false;
  if (in_backward_) watch_.EndBackward();
  RunLog::Global().EndPass();
  in_backward_ = false;
  is_unobserved_ = false;
  graph_.Clear();
  if (steady_run_ != nullptr) EndSteadyPair();
  if (IsManaging() && IsNextRecorded()) EnableRecorder(true);
  EndPlanRun();
  tape_->planned_instant = Tape::kNoPlan;
}

bool Runtime::Relieve(const Pressure& pressure) {
  // Another thread may hold the lock for the length of a recomputation.
  const auto lock = RuntimeLock::TryAcquire(
      pressure.is_locked ? std::chrono::milliseconds(0) : Patience());
  if (!lock.owns_lock() || state_ == State::kOff) return false;
  const Busy busy;
  const WorkScope own = watch_.kernels().MarkOwn();
  was_relieved_ = true;
  watch_.Poll();  // recomputation candidates are chosen by their time
  if (state_ == State::kIdle) Wake();
  if (state_ == State::kResting && !in_pair_) EnableRecorder(true);
  // Pending proofs are worth waiting for: a proven storage need not be copied.
  if (!pressure.is_locked && !Device::Get().MayBeCapturing()) SettleProofs();
  try {
    const bool relieved =
        residency_.Relieve(pressure) || weights_.Relieve(pressure);
    // With the recorder on, recipes can help.
    if (!relieved && state_ == State::kSteady) {
      if (Candidate* candidate = Followed()) candidate->unsteady = true;
    }
    return relieved;
  } catch (const std::exception& error) {
    TurnOff(error.what());
    return false;
  }
}

void Runtime::OnMismatch(const Tape& tape, int storage) {
  for (int writer : tape.storages[storage].writers) {
    const TapeOp& op = tape.ops[writer];
    SayHere(absl::StrCat("VERIFY: ", op.info->name,
                         " did not repeat its bytes; it is kept from now on"));
    verifier_.Refuse(op.signature);
  }
  for (auto& [signature, book] : books_.entries()) book.DiscardPlans();
  planning_.Clear();
  ++report_.mismatches;
}

void Runtime::BeforeFree(void* block) {
  const RuntimeLock lock;
  const Busy busy;
  try {
    residency_.BeforeFree(block, in_backward_);
  } catch (const std::exception& error) {
    TurnOff(error.what());
  }
}

void Runtime::FillReport() {
  report_.peak = Device::Get().RunPeak(device_);
  report_.budget = budget() == kNoBudget ? Bytes{-1} : budget();
  report_.largest_budget = std::max(report_.largest_budget, report_.budget);
  report_.words = Device::Get().tier_words();
  report_.cuda = ReportCuda();
  report_.cupti.is_asked = settings_.cupti;
  report_.cupti.refused = watch_.kernels().refused();
  report_.ops_replayed = residency_.counts().ops_replayed;
  report_.bytes_dropped = residency_.counts().bytes_dropped;
  report_.bytes_spilled = residency_.counts().bytes_spilled;
  report_.verified = residency_.counts().verified;
  report_.bytes_restored = residency_.counts().bytes_restored;
  report_.weights = {.is_on = weights_.is_on(),
                     .bytes_out = weights_.counts().bytes_out,
                     .bytes_back = weights_.counts().bytes_back,
                     .stopped_because = weights_.stopped_because()};
  report_.saved_tensors = residency_.CountSavedTensors();
  report_.saved = ledger().LiveByKind()[static_cast<int>(Kind::kSaved)];
  if (residency_.tier() != nullptr) {
    report_.in_file = residency_.tier()->room().used;
    report_.out = residency_.tier()->WriteRates();
    report_.back = residency_.tier()->ReadRates();
  }
  if (report_.coverage) report_.coverage->foreign_saves = foreign_saves_;
  report_.state = NameOf(state_);
  report_.signatures = books_.size();
  report_.signatures_bound = books_.bound();
  report_.signatures_planned = KnownTapes().size();
  if (state_ == State::kOff) {
    report_.reason = off_because_;
  } else if (!settings_.budget) {
    report_.reason = "no budget, recorded only";
  } else if (IsUntouched(report_) && !IsOverBudget(report_) &&
             !report_.out_of_memory) {
    report_.reason = "the job fits its budget";
  } else {
    report_.reason = WhyNotBetter();
  }
}

std::string Runtime::Report() {
  const RuntimeLock lock;
  FillReport();
  return ReportToJson(ReportSoFar());
}

std::string Runtime::Finish() {
  const RuntimeLock lock;
  DropLastWords();
  Device::Get().BeginExit();
  CloseLastStep();
  if (progress_) progress_->Close();
  LogQueued();
  watch_.kernels().Drop();
  watch_.kernels().CleanUp();
  TellCupti();
  FillReport();
  const bool is_silent = is_quiet_ || IsBystander();
  // One that has not trained has a trace, too, which says so.
  if (!has_trained_ && !is_silent && !settings_.record.empty()) OpenLog();
  RunLog::Global().AddText(TextKind::kReport, ReportToJson(report_));
  RunLog::Global().Close();
  if (is_silent) return "";
  if (!settings_.report.empty()) {
    const absl::Status written = WriteReport(
        report_, FileOfRank(settings_.report, RankOfProcess()), started_at_);
    if (!written.ok()) SayHere(std::string(written.message()));
  }
  return LastLine();
}

}  // namespace ebbtide
