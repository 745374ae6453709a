// Writes the tape: one observer of all dispatcher calls.
//
// It records the outermost op below composite and autocast layers, but not its
// children, the backward's ops and ebbtide's own.
#ifndef EBBTIDE_HOOKS_RECORDER_H_
#define EBBTIDE_HOOKS_RECORDER_H_

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "hooks/kernel_times.h"
#include "hooks/tape.h"

namespace ebbtide {

// The receiver of the recorder's events. Calls are made under the runtime's
// lock, on the thread that runs the op.
class TapeListener {
 public:
  virtual ~TapeListener() = default;
  // The tape to record on, or nullptr for "do not record". `may_begin`: whether
  // a forward pass may begin with the op.
  virtual Tape* TapeFor(absl::FunctionRef<bool()> may_begin) = 0;
  // Before the kernel runs, its arguments recorded. `op` is its index. Returns
  // what is to live until it has run, or nullptr.
  virtual std::unique_ptr<WorkScope> OnOpBegin(Tape* tape, int op) = 0;
  // After it; `outputs` flattened. The storages are on the tape.
  virtual void OnOpEnd(Tape* tape, int op, at::TensorList outputs) = 0;
  // Recording has failed by a fault of ours.
  virtual void OnFailure(const std::string& what) = 0;
  // True if OnForeignWrite and OnUnseenWrite are to be called.
  virtual bool WantsWrites() = 0;
  // True if the recorder may be off during the optimizer's step that begins.
  virtual bool LeavesOutOptimizers() = 0;
  // True if ops are to be recorded after the optimizer's step.
  virtual bool WantsOps() = 0;
  // An op outside recording is about to write `tensor`.
  virtual void OnForeignWrite(const at::Tensor& tensor) = 0;
  // An op that is not on the tape, because recording it has failed, is about to
  // write `tensor`.
  virtual void OnUnseenWrite(const at::Tensor& tensor) = 0;
};

// The listener must live for ever.
void InstallRecorder(TapeListener* listener);

// Registers the observer, or removes it; needs the runtime's lock. PyTorch
// keeps its list of observers under a mutex and an op in flight keeps its copy,
// so other threads may run ops meanwhile. Merely disabled, an observer costs
// each thread a copy of that list whenever backward or a guard sets
// thread-local state: 0.6 % of the instructions of a job of small ops.
//
// While an optimizer's step runs it may be off by itself: PyTorch packs up the
// arguments of each op for an observer, lists of all parameters among them.
void EnableRecorder(bool enabled);
bool IsRecorderEnabled();
bool IsRecorderPaused();  // in the step of an optimizer

// The op of `tape` that this thread is inside, or -1.
int CurrentOp(const Tape* tape);
// True where this thread is in one, whose end OnOpEnd is called at.
bool IsRecordingOp();

// The backward node, or the op being recorded, that this thread is inside; ""
// if unknown.
std::string CurrentOpName();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RECORDER_H_
