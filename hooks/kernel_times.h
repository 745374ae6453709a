// Times of ops and backward ops by what they had the device do, as CUPTI
// records it (EBBTIDE_CUPTI): kernels, copies and sets, without the gaps that
// marks in a stream include. A window (profiler/cupti_window.h) is open from
// the begin of a recorded pair to that of the next. Each op, and each node of
// the backward, runs under an id of its own; what ebbtide itself has the device
// do meanwhile, under another one.
//
// A window that cannot be had, or is not whole, leaves the times as they are.
//
// Under the runtime's lock, except where said otherwise. CUPTI may be called
// with it: what CUPTI calls on other threads (profiler/cupti_collector.h) takes
// no lock of hooks/.
#ifndef EBBTIDE_HOOKS_KERNEL_TIMES_H_
#define EBBTIDE_HOOKS_KERNEL_TIMES_H_

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hooks/step_work.h"
#include "hooks/tape.h"
#include "profiler/cupti_join.h"
#include "profiler/cupti_window.h"

namespace ebbtide {

// Attributes the work that this thread starts during the scope to an id.
// Without locks.
class WorkScope final : public at::ObserverContext {
 public:
  WorkScope(std::shared_ptr<CuptiWindow> window, uint64_t id)
      : window_(std::move(window)) {
    if (window_ != nullptr) window_->Push(id);
  }
  ~WorkScope() override { End(); }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

  // On the thread that made it. Once is enough.
  void End() {
    if (window_ != nullptr) window_->Pop();
    window_.reset();
  }

 private:
  std::shared_ptr<CuptiWindow> window_;
};

class KernelTimes {
 public:
  // CUPTI is asked for; nothing happens before.
  void Allow() { is_allowed_ = true; }

  // A window for the pair of `tape`, if it can be had.
  void Open(Tape* tape);
  // Ends the window. Waits for the device. Returns what the step did, and has
  // put it into the tape; nullopt where there was no window, or no whole one.
  std::optional<StepWork> Close();
  // Ends it without a result, and without waiting.
  void Drop();
  // Disables the activities that a window left enabled for another profiler
  // that started during it, once that has stopped.
  void CleanUp();
  // In a child of fork, which has no device.
  void Forget();

  // An op begins, which EndOp will name; nullptr: no window is open.
  std::unique_ptr<WorkScope> MarkOp();
  void EndOp(int op);
  // That stage begins, in the node that this thread is inside.
  void BeginStage(int stage);
  // Work of nodes from now on belongs to no backward op.
  void EndBackward() { stage_ = -1; }
  // For work of ours.
  WorkScope MarkOwn() const;

  // Why the first window was refused that was; "" if none was.
  const std::string& refused() const { return refused_; }

 private:
  // Where the work of an id belongs to.
  struct Target {
    enum class What { kNothing, kOp, kStage };
    What what = What::kNothing;
    int index = 0;
    bool began = false;  // the node began that stage itself
  };
  absl::Status Begin();
  void Refuse(const absl::Status& why);
  // Ends the window where another profiler has begun.
  bool GiveWay();
  uint64_t NewId(Target target);
  StepWork Attribute(const WorkProfile& profile);
  // Each node of a backward.
  void ObserveNodes(bool enabled);
  static std::unique_ptr<at::ObserverContext> OnNode(
      const at::RecordFunction& node);

  bool is_allowed_ = false;
  int refusals_ = 0;
  std::string refused_;
  bool owes_ = false;  // something may be enabled
  const CuptiApi* api_ = nullptr;
  std::shared_ptr<CuptiWindow> window_;
  std::optional<at::CallbackHandle> nodes_;
  Tape* tape_ = nullptr;         // tape of the window's step
  std::vector<Target> targets_;  // by id, from kFirstId on
  size_t op_ = 0;                // op that was marked last
  int stage_ = -1;               // that began last in the backward that runs
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_KERNEL_TIMES_H_
