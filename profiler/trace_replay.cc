// A trace in memory as a source of records.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

// The records of all lists, to be handed on by time.
class Records {
 public:
  template <typename Record, typename Hand>
  void Add(const std::vector<Record>& records, int64_t Record::*time,
           Hand hand) {
    for (const Record& record : records) {
      records_.emplace_back(record.*time, [&record, hand](TraceVisitor& to) {
        hand(to, record);
      });
    }
  }
  void HandOn(TraceVisitor& visitor) {
    std::stable_sort(
        records_.begin(), records_.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, hand] : records_) hand(visitor);
  }

 private:
  std::vector<std::pair<int64_t, std::function<void(TraceVisitor&)>>> records_;
};

void HandOn(const Trace& trace, TraceVisitor& visitor) {
  visitor.OnStart({trace.process, trace.unix_nanos, trace.start});
  for (const std::string& name : trace.names) visitor.OnName(name);
  Records records;
  records.Add(trace.steps, &StepRecord::begin, [](auto& to, const auto& step) {
    to.OnStepBegin(step.index, step.begin);
  });
  if (trace.blocks.empty()) {
    records.Add(trace.curve, &CurveSample::time,
                [](auto& to, const auto& each) { to.OnSample(each); });
  }
  records.Add(trace.blocks, &BlockEvent::time,
              [](auto& to, const auto& each) { to.OnBlock(each); });
  records.Add(trace.tiers, &TierSample::time,
              [](auto& to, const auto& each) { to.OnTier(each); });
  records.Add(trace.spans, &Span::end,
              [](auto& to, const auto& each) { to.OnSpan(each); });
  records.Add(trace.gaps, &TraceGap::end,
              [](auto& to, const auto& each) { to.OnGap(each); });
  records.Add(trace.budgets, &BudgetChange::time,
              [](auto& to, const auto& each) { to.OnBudget(each); });
  records.Add(trace.evictions, &Eviction::time,
              [](auto& to, const auto& each) { to.OnEviction(each); });
  records.Add(trace.peaks, &PeakRecord::time,
              [](auto& to, const auto& each) { to.OnPeak(each); });
  records.Add(trace.texts, &TraceText::time,
              [](auto& to, const auto& each) { to.OnText(each); });
  records.Add(trace.steps, &StepRecord::end, [](auto& to, const auto& step) {
    if (step.end != 0) to.OnStepEnd(step);
  });
  records.HandOn(visitor);
  for (const BlockNote& note : trace.notes) visitor.OnNote(note);
  if (trace.detail_end != 0) visitor.OnDetailEnd(trace.detail_end);
}

}  // namespace

TraceSource SourceOf(const Trace& trace) {
  return [&trace](TraceVisitor& visitor) -> absl::StatusOr<TraceEnd> {
    HandOn(trace, visitor);
    return TraceEnd{trace.complete, trace.dropped, trace.damage};
  };
}

}  // namespace ebbtide
