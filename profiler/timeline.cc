#include "profiler/timeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "profiler/block_books.h"
#include "profiler/timeline_lanes.h"
#include "profiler/timeline_survey.h"

namespace ebbtide {
namespace {

// A block can be asked for by several backward ops.
constexpr size_t kMostUnpacked = 3;
constexpr size_t kMostNotes = 1000;

void CountSpan(const Span& span, OpRow& row) {
  const int kind = static_cast<int>(span.kind);
  ++row.count[kind];
  row.nanos[kind] += span.end - span.begin;
  row.bytes[kind] += span.bytes;
}

void CountEviction(const Eviction& eviction, OpRow& row) {
  const bool dropped = eviction.how == Eviction::How::kDrop;
  ++(dropped ? row.drops : row.spills);
  (dropped ? row.dropped : row.spilled) += eviction.bytes;
}

int64_t NanosOfOurs(const OpRow& row) {
  int64_t nanos = 0;
  for (const SpanKind kind : {SpanKind::kRecompute, SpanKind::kOffload,
                              SpanKind::kRestore, SpanKind::kStall}) {
    nanos += row.nanos[static_cast<int>(kind)];
  }
  return nanos;
}

// Last pass.
class Builder final : public TraceVisitor {
 public:
  Builder(const TimelineSurvey& survey, const TimelineOptions& options,
          Timeline& timeline)
      : survey_(survey),
        curve_(survey.events, options.points, survey.detail_begin,
               survey.detail_end),
        lanes_(kSpanKinds,
               LaneMaker(std::max<int64_t>(1, (survey.end - survey.begin) /
                                                  options.intervals),
                         survey.detail_begin_time, survey.detail_end_time)),
        steps_apart_(survey.steps / options.steps + 1),
        tiers_apart_(std::max<int64_t>(
            1, (survey.end - survey.begin) / options.intervals)),
        timeline_(timeline) {}

  void OnName(std::string name) override {
    timeline_.names.push_back(std::move(name));
  }
  void OnSample(const CurveSample& sample) override {
    AddPoint(sample.time, CausesOf(sample.live, Bytes{0}));
  }
  void OnBlock(const BlockEvent& event) override {
    ListBlock(event);
    books_.Apply(event);
    AddPoint(event.time, CausesOf(books_.live(), books_.workspace()));
  }
  void OnNote(const BlockNote& note) override;
  void OnTier(const TierSample& sample) override;
  void OnSpan(const Span& span) override {
    lanes_[static_cast<int>(span.kind)].Add(span);
    CountSpan(span, rows_[span.name]);
    CountSpan(span, timeline_.total);
  }
  void OnStepBegin(int64_t index, int64_t time) override {
    KeepStep();
    step_ = {.index = index, .begin = time};
    has_step_ = true;
  }
  // The record of its beginning may have been left out.
  void OnStepEnd(const StepRecord& end) override {
    if (!has_step_ || step_.index != end.index) OnStepBegin(end.index, end.end);
    step_.end = end.end;
    step_.peak = end.peak;
    timeline_.peak = std::max(timeline_.peak, end.peak);
    ++timeline_.whole_steps;
    timeline_.steps_nanos += step_.end - step_.begin;
  }
  void OnGap(const TraceGap& gap) override { AddGap(gap, &timeline_.gaps); }
  void OnBudget(const BudgetChange& change) override {
    timeline_.budgets.push_back(change);
  }
  void OnEviction(const Eviction& eviction) override;
  void OnText(TraceText text) override;
  void OnDetailEnd(int64_t time) override { timeline_.recorded_until = time; }

  void Finish();

 private:
  void AddPoint(int64_t time, const BytesByCause& live) {
    // The first of two threads may write second.
    last_time_ = std::max(last_time_, time);
    curve_.Add({.time = last_time_, .event = events_++, .live = live}, keep_);
  }
  void ListBlock(const BlockEvent& event);
  void EndBlock(int64_t number, int64_t time);
  // nullptr where it is not listed.
  TimelineBlock* Listed(int64_t number) {
    const auto found = listed_.find(number);
    return found == listed_.end() ? nullptr : &found->second;
  }
  void KeepStep();
  void MakeRows();

  const TimelineSurvey& survey_;
  ThinnedCurve curve_;
  std::vector<LaneMaker> lanes_;
  const int64_t steps_apart_;
  const int64_t tiers_apart_;
  Timeline& timeline_;
  const std::function<void(const TimelinePoint&)> keep_ =
      [this](const TimelinePoint& point) { timeline_.curve.push_back(point); };
  BlockBooks books_;
  int64_t events_ = 0;
  int64_t last_time_ = std::numeric_limits<int64_t>::min();
  absl::btree_map<int64_t, TimelineBlock> listed_;
  absl::flat_hash_map<int, OpRow> rows_;
  StepRecord step_;
  bool has_step_ = false;
  int64_t steps_seen_ = 0;
};

void Builder::EndBlock(int64_t number, int64_t time) {
  if (TimelineBlock* const block = Listed(number)) {
    block->end = events_;
    block->end_time = time;
  }
}

void Builder::ListBlock(const BlockEvent& event) {
  using What = BlockEvent::What;
  switch (event.what) {
    case What::kAllocate:
    case What::kFound:
      if (!survey_.blocks.contains(event.block)) return;
      listed_[event.block] = {
          .number = event.block,
          .begin = events_,
          .end = survey_.events,
          .begin_time = event.time,
          .end_time = survey_.end,
          .bytes = event.bytes,
          .causes = {{events_, CauseOf(event.kind, event.name)}},
          .name = event.name};
      return;
    case What::kFree:
      if (books_.Find(event.block) != nullptr) {
        EndBlock(event.block, event.time);
      }
      return;
    case What::kRetag:
      if (TimelineBlock* const block = Listed(event.block)) {
        block->causes.emplace_back(events_, CauseOf(event.kind, block->name));
      }
      return;
    case What::kForget:
      for (const auto& [number, block] : books_.alive()) {
        EndBlock(number, event.time);
      }
  }
}

void Builder::OnNote(const BlockNote& note) {
  TimelineBlock* const block = Listed(note.block);
  switch (note.what) {
    case BlockNote::What::kShape:
      if (block != nullptr) block->shape = note.name;
      return;
    case BlockNote::What::kMadeBy:
      if (block != nullptr && block->name < 0) block->name = note.name;
      return;
    case BlockNote::What::kOfLayer:
      if (block != nullptr) block->layer = note.name;
      return;
    case BlockNote::What::kUnpackedBy: {
      if (block == nullptr) return;
      auto& by = block->unpacked_by;
      if (by.size() < kMostUnpacked &&
          std::find(by.begin(), by.end(), note.name) == by.end()) {
        by.push_back(note.name);
      }
      return;
    }
    case BlockNote::What::kReturns:
      if (block != nullptr) block->value = note.value;
      TimelineBlock* const value = Listed(note.value);
      if (value != nullptr && value->evicted >= 0 && value->returned < 0) {
        value->returned = events_;
      }
  }
}

void Builder::OnEviction(const Eviction& eviction) {
  CountEviction(eviction, rows_[eviction.name]);
  CountEviction(eviction, timeline_.total);
  TimelineBlock* const value = Listed(eviction.value);
  if (value == nullptr) return;
  value->evicted = events_;
  value->returned = -1;
  value->how = eviction.how;
  value->planned = eviction.planned;
}

// One for each interval, the fullest.
void Builder::OnTier(const TierSample& sample) {
  auto& tiers = timeline_.tiers;
  const auto total = [](const TierSample& each) {
    return each.host + each.disk;
  };
  const bool is_close = !tiers.empty() && sample.time / tiers_apart_ ==
                                              tiers.back().time / tiers_apart_;
  if (!is_close) {
    tiers.push_back(sample);
  } else if (total(sample) > total(tiers.back())) {
    tiers.back() = sample;
  }
}

void Builder::OnText(TraceText text) {
  switch (text.kind) {
    case TextKind::kNote:
      if (timeline_.notes.size() < kMostNotes) {
        timeline_.notes.push_back(std::move(text));
      }
      return;
    case TextKind::kRun:
      timeline_.run = std::move(text.text);
      return;
    case TextKind::kProfile:
      timeline_.profile = std::move(text.text);
      return;
    case TextKind::kPlan:
      timeline_.plan = std::move(text.text);
      timeline_.plans.push_back(text.time);
      return;
    case TextKind::kReport:
      return;
  }
}

// Thins out many steps; the one of the peak stays.
void Builder::KeepStep() {
  if (!std::exchange(has_step_, false)) return;
  const bool is_of_peak = step_.begin <= survey_.peak_time &&
                          (step_.end == 0 || survey_.peak_time <= step_.end);
  if (steps_seen_++ % steps_apart_ == 0 || is_of_peak) {
    timeline_.steps.push_back(step_);
  }
}

void Builder::MakeRows() {
  for (auto& [name, row] : rows_) {
    row.name = timeline_.names[name];
    const bool touched = row.drops + row.spills > 0 || NanosOfOurs(row) > 0;
    if (touched) timeline_.rows.push_back(std::move(row));
  }
  const auto key = [](const OpRow& row) {
    return std::tuple(-Count(row.dropped + row.spilled), -NanosOfOurs(row),
                      row.name);
  };
  std::sort(timeline_.rows.begin(), timeline_.rows.end(),
            [&](const OpRow& a, const OpRow& b) { return key(a) < key(b); });
}

void Builder::Finish() {
  KeepStep();
  curve_.Flush(keep_);
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    timeline_.lanes[kind] = std::move(lanes_[kind]).Take();
  }
  for (auto& [number, block] : listed_) {
    timeline_.blocks.push_back(std::move(block));
  }
  MakeRows();
}

}  // namespace

absl::StatusOr<Timeline> MakeTimeline(const TraceSource& source,
                                      const TimelineOptions& options) {
  const auto survey = SurveyTimeline(source, options);
  if (!survey.ok()) return survey.status();
  Timeline timeline = {.begin = survey->begin,
                       .end = survey->end,
                       .events = survey->events,
                       .peak = survey->peak,
                       .peak_time = survey->peak_time,
                       .peak_event = survey->peak_event,
                       .detail_begin = survey->detail_begin,
                       .detail_end = survey->detail_end};
  Builder builder(*survey, options, timeline);
  auto end = source(builder);
  if (!end.ok()) return end.status();
  builder.Finish();
  timeline.complete = end->complete;
  timeline.dropped_records = end->dropped;
  timeline.damage = std::move(end->damage);
  return timeline;
}

}  // namespace ebbtide
