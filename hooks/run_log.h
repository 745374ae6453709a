// What the runtime writes into the trace file of EBBTIDE_RECORD, if there is
// one. Every call is cheap and does nothing without a file.
#ifndef EBBTIDE_HOOKS_RUN_LOG_H_
#define EBBTIDE_HOOKS_RUN_LOG_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "allocator/ledger.h"
#include "planner/units.h"
#include "profiler/clock.h"
#include "profiler/trace.h"

namespace ebbtide {

class RunLog {
 public:
  static RunLog& Global();

  // Opens the file and begins to sample the allocation curve.
  absl::Status Open(const std::string& path, Bytes max_size);
  // The curve is that of another ledger from now on.
  void SampleFrom(Ledger* ledger);
  bool IsOpen() const { return is_open_; }
  void Close();

  void BeginStep(int64_t index);
  void EndStep(int64_t index, Bytes peak);
  void SetBudget(Bytes budget);
  void AddEviction(absl::string_view what, Bytes bytes, Eviction::How how);
  void AddSpan(SpanKind kind, absl::string_view what, int64_t begin,
               Bytes bytes);
  void AddText(TextKind kind, std::string text);

  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  std::atomic<bool> is_open_ = false;  // copy threads look at it too
};

// A span that lasts as long as its scope, on any thread.
class LogSpan {
 public:
  LogSpan(SpanKind kind, absl::string_view what, size_t bytes)
      : kind_(kind),
        what_(what),
        bytes_{static_cast<int64_t>(bytes)},
        begin_(RunLog::Global().IsOpen() ? NowNanos() : 0) {}
  ~LogSpan() { RunLog::Global().AddSpan(kind_, what_, begin_, bytes_); }
  LogSpan(const LogSpan&) = delete;
  LogSpan& operator=(const LogSpan&) = delete;

 private:
  const SpanKind kind_;
  const absl::string_view what_;
  const Bytes bytes_;
  const int64_t begin_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUN_LOG_H_
