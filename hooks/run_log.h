// RunLog writes the trace file of EBBTIDE_RECORD, if one is set. Every call is
// cheap and does nothing without a file.
//
// Blocks are those of at least LeastManaged() bytes; smaller ones are counted.
#ifndef EBBTIDE_HOOKS_RUN_LOG_H_
#define EBBTIDE_HOOKS_RUN_LOG_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "allocator/ledger.h"
#include "hooks/host_tier.h"
#include "planner/units.h"
#include "profiler/clock.h"
#include "profiler/trace.h"

namespace ebbtide {

class RunLog {
 public:
  static constexpr int kNoName = -1;

  static RunLog& Global();

  // Opens the file and begins to record the blocks of the ledger.
  absl::Status Open(const std::string& path, Bytes max_size, Ledger* ledger);
  // The blocks are those of another ledger from now on.
  void SampleFrom(Ledger* ledger);
  bool IsOpen() const { return is_open_; }
  // True if the file is open and not full: facts that only the trace needs are
  // worth finding.
  bool TakesDetail() const;
  void Close();

  // The op, or backward op, that this thread is inside until the next call or
  // LeaveOp: what it allocates is that op's. Returns its name's number.
  int EnterOp(absl::string_view name);
  void LeaveOp();
  // Number of a name in the trace; kNoName if the trace needs none.
  int Number(absl::string_view name);
  // Callbacks that trace the copies of a tier (hooks/host_tier.h); empty if no
  // file is open.
  TierLog ForTier() const;

  void BeginStep(int64_t index);
  // The forward and backward pass of the step is over.
  void EndPass();
  void EndStep(int64_t index, Bytes peak);
  void SetBudget(Bytes budget);
  // Records an eviction of the value that the block at `data` holds, or held
  // first.
  void AddEviction(absl::string_view what, const Eviction& eviction);
  void AddSpan(const Span& span);
  // Records an op or a backward op that EnterOp has numbered.
  void AddOp(SpanKind kind, int name, int64_t begin);
  // Records that the block at `data` holds a parameter or its gradient. Only
  // the trace has this; plans do not use it.
  void Tag(const void* data, Kind kind, const void* parameter);
  // The module that owns the parameter, or one that comes behind it and has
  // none, has made what the block holds. A parameter is its c10::StorageImpl,
  // here and above, and its name is noted once it is known.
  void NoteLayer(int64_t block, const void* parameter);
  // The program calls it so, "h.3.mlp.c_fc.weight".
  void NameParameter(const at::Tensor& parameter, absl::string_view name);
  void AddTier(Bytes host, Bytes disk);
  void AddText(TextKind kind, std::string text);

  // The number of the block at that address; kNoBlock where it has none.
  int64_t BlockAt(const void* data) const;
  void NoteShape(int64_t block, const at::Tensor& tensor);
  void NoteMaker(int64_t block, absl::string_view op);
  // The backward op `name` has asked for what the block holds, or held first.
  void NoteUnpacked(int64_t block, absl::string_view name);
  // The block at `data` holds what `value` held, made behind `parameter`.
  void NoteReturn(const void* data, int64_t value, const void* parameter);

  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  std::atomic<bool> is_open_ = false;  // copy threads look at it too
};

// A span that lasts as long as its scope, on any thread.
class LogSpan {
 public:
  LogSpan(SpanKind kind, absl::string_view what, size_t bytes, int64_t value)
      : span_{.kind = kind,
              .name = RunLog::Global().Number(what),
              .bytes = Bytes{static_cast<int64_t>(bytes)},
              .value = value} {
    if (IsWanted()) span_.begin = NowNanos();
  }
  ~LogSpan() {
    if (!IsWanted()) return;
    span_.end = NowNanos();
    RunLog::Global().AddSpan(span_);
  }
  LogSpan(const LogSpan&) = delete;
  LogSpan& operator=(const LogSpan&) = delete;

 private:
  bool IsWanted() const { return span_.name != RunLog::kNoName; }

  Span span_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUN_LOG_H_
