#include "hooks/kernel_times.h"

#include <algorithm>

#include "hooks/device.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

constexpr uint64_t kOwnId = 1;
constexpr uint64_t kFirstId = 2;  // first id of the program's work

// After so many windows that were refused, or were not whole, none is tried.
constexpr int kMostRefusals = 3;

// The instance that the node observer, a plain function, reports to: there is
// one runtime.
KernelTimes* observing = nullptr;

bool IsProfilerActive() {
  return Device::Get().profiler() == Device::Profiler::kActive;
}

// The node that this thread is inside: which window, and where among its
// targets.
struct Node {
  const CuptiWindow* window = nullptr;
  size_t target = 0;
};
thread_local Node innermost;

// A node runs.
struct NodeContext final : at::ObserverContext {
  NodeContext(std::shared_ptr<CuptiWindow> window, uint64_t id)
      : scope(std::move(window), id) {}
  WorkScope scope;
  Node outer;
};

void OnNodeEnd(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto* const node = static_cast<NodeContext*>(context);
  node->scope.End();
  innermost = node->outer;
}

int64_t NanosOf(const WorkTotals& totals) {
  int64_t nanos = totals.kernels.nanos + totals.sets.nanos;
  for (const WorkSum& copies : totals.copies) nanos += copies.nanos;
  return nanos;
}

}  // namespace

void KernelTimes::Open(Tape* tape) {
  if (!is_allowed_ || refusals_ >= kMostRefusals) return;
  if (const absl::Status begun = Begin(); !begun.ok()) return Refuse(begun);
  tape_ = tape;
  targets_.clear();
  stage_ = -1;
  ObserveNodes(true);
}

absl::Status KernelTimes::Begin() {
  if (api_ == nullptr) {
    const auto api = CuptiApi::Loaded();
    if (!api.ok()) return api.status();
    api_ = *api;
  }
  CleanUp();
  // It has CUPTI take its own clock, in ticks, and keeps the subscriber.
  if (Device::Get().profiler() == Device::Profiler::kAtRest) {
    return absl::FailedPreconditionError(
        "CUPTI: its times may be of another clock, since torch.profiler has "
        "been used");
  }
  auto window = CuptiWindow::Begin(*api_, {.other_profiler = [] {
    return IsProfilerActive() ? "torch.profiler (Kineto)" : "";
  }});
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  return absl::OkStatus();
}

// A refusal because of PyTorch's own profiler is temporary; it does not count.
void KernelTimes::Refuse(const absl::Status& why) {
  if (refused_.empty()) refused_ = std::string(why.message());
  if (!IsProfilerActive()) ++refusals_;
}

bool KernelTimes::GiveWay() {
  if (window_ == nullptr || !IsProfilerActive()) return false;
  // The records of completed work are in ebbtide's buffers, which the other
  // profiler cannot see: once the device is idle, the end of the window returns
  // them all.
  if (!Device::Get().IsCapturing()) Device::Get().AwaitAll();
  Drop();
  return true;
}

void KernelTimes::Drop() {
  if (window_ == nullptr) return;
  ObserveNodes(false);
  const auto records = std::exchange(window_, nullptr)->End();
  if (!records.ok()) Refuse(records.status());
  owes_ = owes_ || IsProfilerActive();
}

void KernelTimes::CleanUp() {
  if (!owes_ || IsProfilerActive()) return;
  owes_ = false;
  CuptiWindow::DisableAll(*api_).IgnoreError();
}

void KernelTimes::Forget() {
  is_allowed_ = false;
  owes_ = false;
  // Its end would call CUPTI.
  new std::shared_ptr<CuptiWindow>(std::move(window_));
}

std::optional<StepWork> KernelTimes::Close() {
  if (window_ == nullptr || GiveWay()) return std::nullopt;
  const bool has_run = Device::Get().AwaitAll();
  ObserveNodes(false);
  auto records = std::exchange(window_, nullptr)->End();
  owes_ = owes_ || IsProfilerActive();
  absl::Status status = records.status();
  if (!has_run) {
    status.Update(
        absl::UnavailableError("CUPTI: the device cannot be awaited"));
  }
  if (!status.ok()) {
    Refuse(status);
    return std::nullopt;
  }
  const auto profile = JoinWork(*records);
  if (!profile.ok()) {
    Refuse(profile.status());
    return std::nullopt;
  }
  return Attribute(*profile);
}

// Ops and backward ops without device work took no time there.
StepWork KernelTimes::Attribute(const WorkProfile& profile) {
  StepWork work = {.unattributed = NanosOf(profile.unattributed)};
  for (const DeviceBusy& device : profile.devices) work.busy += device.any;
  const auto time_of = [this](const Target& target) {
    return target.what == Target::What::kOp
               ? &tape_->ops[target.index].nanoseconds
               : &tape_->stages[target.index].nanoseconds;
  };
  for (const Target& target : targets_) {
    if (target.what != Target::What::kNothing) *time_of(target) = 0;
  }
  for (const auto& [id, totals] : profile.by_id) {
    const int64_t nanos = NanosOf(totals);
    const size_t index = id - kFirstId;
    if (id == kOwnId) {
      work.own += nanos;
    } else if (index < targets_.size() &&
               targets_[index].what != Target::What::kNothing) {
      work.attributed += nanos;
      *time_of(targets_[index]) += static_cast<double>(nanos);
    } else {
      work.unattributed += nanos;
    }
  }
  return work;
}

uint64_t KernelTimes::NewId(Target target) {
  targets_.push_back(target);
  return kFirstId + targets_.size() - 1;
}

std::unique_ptr<WorkScope> KernelTimes::MarkOp() {
  if (window_ == nullptr || GiveWay()) return nullptr;
  op_ = targets_.size();
  return std::make_unique<WorkScope>(window_, NewId({}));
}

void KernelTimes::EndOp(int op) {
  if (window_ == nullptr || op_ >= targets_.size()) return;
  targets_[op_] = {.what = Target::What::kOp, .index = op};
}

void KernelTimes::BeginStage(int stage) {
  if (window_ == nullptr) return;
  stage_ = stage;
  const Target target = {
      .what = Target::What::kStage, .index = stage, .began = true};
  if (innermost.window == window_.get() && !targets_[innermost.target].began) {
    targets_[innermost.target] = target;
  } else {
    targets_.push_back(target);  // all of the node's is the first stage's
  }
}

WorkScope KernelTimes::MarkOwn() const { return {window_, kOwnId}; }

void KernelTimes::ObserveNodes(bool enabled) {
  if (enabled == nodes_.has_value()) return;
  observing = this;
  if (enabled) {
    nodes_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&OnNode, &OnNodeEnd)
            .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  } else {
    at::removeCallback(*nodes_);
    nodes_.reset();
  }
}

// A node that unpacks nothing belongs to the stage before it, as marks in the
// stream have it.
std::unique_ptr<at::ObserverContext> KernelTimes::OnNode(
    const at::RecordFunction&) {
  const RuntimeLock lock;
  KernelTimes& times = *observing;
  if (times.window_ == nullptr || times.GiveWay()) return nullptr;
  Target target;
  if (times.stage_ >= 0) {
    target = {.what = Target::What::kStage, .index = times.stage_};
  }
  const uint64_t id = times.NewId(target);
  auto context = std::make_unique<NodeContext>(times.window_, id);
  context->outer = std::exchange(
      innermost, {times.window_.get(), times.targets_.size() - 1});
  return context;
}

}  // namespace ebbtide
