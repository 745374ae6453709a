#include "hooks/watch.h"

#include <algorithm>
#include <utility>

#include "hooks/device.h"
#include "hooks/run_log.h"

namespace ebbtide {
namespace {

Bytes Size(const TapeStorage& storage) {
  return Bytes{static_cast<int64_t>(storage.bytes)};
}

}  // namespace

Ledger& Watch::ledger() const { return Device::Get().ledger(device_); }

double Watch::Since(int64_t begin, double own) const {
  const double elapsed = static_cast<double>(NowNanos() - begin);
  return std::max(1.0, elapsed - (residency_.own_nanoseconds() - own));
}

void Watch::BeginPair(Tape* tape, bool by_work, bool with_marks) {
  tape_ = tape;
  has_marks_ = with_marks;
  device_ = tape->device;
  queued_.Restart(tape, device_);
  held_.clear();
  seen_ = 0;
  step_began_ = NowNanos();
  step_own_ = residency_.own_nanoseconds();
  if (!Device::Get().is_async()) return;
  kernels_.CleanUp();
  if (by_work) kernels_.Open(tape);
  open_ = std::make_shared<StepMarks>();
  open_->begin = std::exchange(mark_, nullptr);
  if (open_->begin == nullptr) open_->begin = Device::Get().MarkTime(device_);
}

void Watch::BeginOp(absl::string_view name) {
  name_ = RunLog::Global().EnterOp(name);
  ledger().BeginWindow();
  other_ = ledger().WindowPeakOther();
  own_ = residency_.own_nanoseconds();
  began_ = NowNanos();
  BeginMarks();
}

// The trace draws each op that it takes where the device has run it.
void Watch::BeginMarks() {
  if (has_marks_ || name_ != RunLog::kNoName) queued_.Begin();
}

void Watch::EndOp(int index) {
  TapeOp& op = tape_->ops[index];
  op.nanoseconds = Since(began_, own_);
  op.is_measured = !Device::Get().is_async();
  const bool is_queued = queued_.End(QueuedTimes::What::kOp, index, name_);
  kernels_.EndOp(index);
  op.other = ledger().WindowPeakOther();
  if (!is_queued) RunLog::Global().AddOp(SpanKind::kForward, name_, began_);
  RunLog::Global().LeaveOp();
  Bytes made{};
  for (int output : op.outputs) {
    if (output >= 0 && tape_->storages[output].writers[0] == index) {
      made += Size(tape_->storages[output]);
    }
  }
  op.scratch = std::max(Bytes{}, op.other - other_ - made);
  NoteReleased(index);
}

void Watch::NoteReleased(int instant) {
  for (; seen_ < static_cast<int>(tape_->storages.size()); ++seen_) {
    if (!tape_->storages[seen_].writers.empty()) held_.push_back(seen_);
  }
  std::erase_if(held_, [&](int index) {
    TapeStorage& storage = tape_->storages[index];
    const bool ours_alone = storage.data
                                ? storage.data.use_count() == 1
                                : storage.identity.expired() || storage.spill;
    if (ours_alone) storage.released = instant;
    return ours_alone;
  });
}

void Watch::CloseStage() {
  if (tape_->stages.empty()) return;
  TapeStage& stage = tape_->stages.back();
  stage.during = ledger().WindowPeakOther();
  stage.nanoseconds = Since(began_, own_);
  stage.is_measured = !Device::Get().is_async();
  const int index = static_cast<int>(tape_->stages.size()) - 1;
  if (!queued_.End(QueuedTimes::What::kStage, index, name_)) {
    RunLog::Global().AddOp(SpanKind::kBackward, name_, began_);
  }
  RunLog::Global().LeaveOp();
  NoteReleased(kStageInstant + index);
}

int Watch::Ask(int storage, const torch::autograd::Node* node) {
  if (tape_->stages.empty() || tape_->stages.back().node != node) {
    CloseStage();
    awaits_first_ = true;
    TapeStage& stage = tape_->stages.emplace_back();
    stage.node = node;
    stage.name = node == nullptr ? "outside backward" : node->name();
    name_ = RunLog::Global().EnterOp(stage.name);
    ledger().BeginWindow();
    stage.before = ledger().WindowPeakOther();
    began_ = NowNanos();
    own_ = residency_.own_nanoseconds();
    kernels_.BeginStage(static_cast<int>(tape_->stages.size()) - 1);
  }
  std::vector<int>& needs = tape_->stages.back().needs;
  if (std::find(needs.begin(), needs.end(), storage) == needs.end()) {
    needs.push_back(storage);
  }
  return static_cast<int>(tape_->stages.size()) - 1;
}

void Watch::EndBackward() {
  CloseStage();
  kernels_.EndBackward();
  if (open_ != nullptr) open_->tail = Device::Get().MarkTime(device_);
  ledger().BeginWindow();
}

void Watch::EndStep() {
  queued_.Finish();
  work_ = kernels_.Close();
  tail_ = ledger().WindowPeakOther();
  step_nanoseconds_ = Since(step_began_, step_own_);
  if (!Device::Get().is_async()) return;
  mark_ = Device::Get().MarkTime(device_);
  if (open_ != nullptr) open_->end = mark_;
  ended_ = std::exchange(open_, nullptr);
}

}  // namespace ebbtide
