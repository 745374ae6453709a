// Reads a trace record by record, in the order in which they were written: the
// memory it takes does not depend on the length of the run.
#ifndef EBBTIDE_PROFILER_TRACE_VISITOR_H_
#define EBBTIDE_PROFILER_TRACE_VISITOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "profiler/trace.h"

namespace ebbtide {

struct TraceStart {
  int64_t process = 0;
  int64_t unix_nanos = 0;  // wall clock at `time`
  int64_t time = 0;
};

// Receives each record; a visitor overrides the functions that it needs. Names
// come before the records that refer to them by number, from 0.
class TraceVisitor {
 public:
  virtual ~TraceVisitor() = default;
  virtual void OnStart(const TraceStart& /*start*/) {}
  // NOLINTBEGIN(performance-unnecessary-value-param): for those that keep it.
  virtual void OnName(std::string /*name*/) {}
  virtual void OnSample(const CurveSample& /*sample*/) {}  // version 1 only
  virtual void OnBlock(const BlockEvent& /*event*/) {}
  virtual void OnNote(const BlockNote& /*note*/) {}
  virtual void OnTier(const TierSample& /*sample*/) {}
  virtual void OnSpan(const Span& /*span*/) {}
  virtual void OnStepBegin(int64_t /*index*/, int64_t /*time*/) {}
  virtual void OnStepEnd(const StepRecord& /*step, without its beginning*/) {}
  virtual void OnGap(const TraceGap& /*gap*/) {}
  virtual void OnBudget(const BudgetChange& /*change*/) {}
  virtual void OnEviction(const Eviction& /*eviction*/) {}
  virtual void OnPeak(PeakRecord /*peak*/) {}
  virtual void OnText(TraceText /*text*/) {}  // whole
  // NOLINTEND(performance-unnecessary-value-param)
  virtual void OnDetailEnd(int64_t /*time*/) {}
};

// How the file ends; as in Trace.
struct TraceEnd {
  bool complete = false;
  int64_t dropped = 0;
  std::string damage;
};

// A trace to be read as often as need be.
using TraceSource = std::function<absl::StatusOr<TraceEnd>(TraceVisitor&)>;
TraceSource SourceOf(const std::string& path);
// `trace` must outlive it. Records are in the order of their times.
TraceSource SourceOf(const Trace& trace);

// Errors as of ReadTrace.
absl::StatusOr<TraceEnd> VisitTrace(const std::string& path,
                                    TraceVisitor& visitor);
// The same for the bytes of a file; `origin` names it in errors.
absl::StatusOr<TraceEnd> VisitTraceBytes(absl::string_view bytes,
                                         const std::string& origin,
                                         TraceVisitor& visitor);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_VISITOR_H_
