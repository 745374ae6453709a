#include "profiler/timeline_survey.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "profiler/block_books.h"

namespace ebbtide {
namespace {

// The blocks that cover most of the picture, bytes times time.
class LargestAreas {
 public:
  explicit LargestAreas(size_t most) : most_(most) {}

  void Offer(int64_t number, const BlockBooks::Block& block, int64_t end) {
    const double nanos = static_cast<double>(std::max<int64_t>(
        1, static_cast<int64_t>(static_cast<uint64_t>(end) -
                                static_cast<uint64_t>(block.time))));
    kept_.emplace(nanos * static_cast<double>(ebbtide::Count(block.bytes)),
                  number);
    if (kept_.size() > most_) kept_.pop();
  }
  void MoveTo(absl::flat_hash_set<int64_t>& numbers) {
    for (; !kept_.empty(); kept_.pop()) numbers.insert(kept_.top().second);
  }

 private:
  using Area = std::pair<double, int64_t>;
  const size_t most_;
  std::priority_queue<Area, std::vector<Area>, std::greater<>> kept_;
};

// First pass: extent, peak and areas.
class Extent final : public TraceVisitor {
 public:
  Extent(const TimelineOptions& options, TimelineSurvey& survey)
      : areas_(options.blocks), survey_(survey) {}

  void OnSample(const CurveSample& sample) override {
    NoteLive(sample.time, sample.live);
  }
  void OnBlock(const BlockEvent& event) override {
    using What = BlockEvent::What;
    if (event.what == What::kForget) {
      OfferAlive(event.time);
    } else if (event.what == What::kFree) {
      const auto* block = books_.Find(event.block);
      if (block != nullptr) areas_.Offer(event.block, *block, event.time);
    }
    books_.Apply(event);
    NoteLive(event.time, books_.live());
  }
  void OnTier(const TierSample& sample) override { Cover(sample.time); }
  void OnSpan(const Span& span) override {
    Cover(span.begin);
    Cover(span.end);
  }
  void OnStepBegin(int64_t /*index*/, int64_t time) override {
    Cover(time);
    // Some steps begin without the end of the one before.
    steps_.push_back({survey_.events, time});
  }
  void OnStepEnd(const StepRecord& step) override { Cover(step.end); }
  void OnEviction(const Eviction& eviction) override { Cover(eviction.time); }
  void OnStart(const TraceStart& start) override { start_ = start.time; }

  void Finish(const TimelineOptions& options) {
    if (begin_ > end_) begin_ = end_ = start_;
    survey_.begin = begin_;
    survey_.end = end_;
    survey_.steps = static_cast<int64_t>(steps_.size());
    OfferAlive(end_);
    areas_.MoveTo(survey_.blocks);
    ChooseDetail(options.detail);
  }

 private:
  struct StepBegin {
    int64_t event;
    int64_t time;
  };

  void Cover(int64_t time) {
    begin_ = std::min(begin_, time);
    end_ = std::max(end_, time);
  }
  void NoteLive(int64_t time, const BytesByKind& live) {
    Cover(time);
    if (const Bytes total = Total(live); total > survey_.peak) {
      survey_.peak = total;
      survey_.peak_time = time;
      survey_.peak_event = survey_.events;
    }
    ++survey_.events;
  }
  void OfferAlive(int64_t end) {
    for (const auto& [number, block] : books_.alive()) {
      areas_.Offer(number, block, end);
    }
  }
  // The step of the peak, the one before and the one after; no more than `most`
  // events of them.
  void ChooseDetail(int64_t most) {
    const auto next =
        std::upper_bound(steps_.begin(), steps_.end(), survey_.peak_event,
                         [](int64_t event, const StepBegin& step) {
                           return event < step.event;
                         });
    const int64_t step = next - steps_.begin() - 1;
    const auto begin_of = [this](int64_t at) {
      if (at < 0) return StepBegin{0, survey_.begin};
      if (at >= static_cast<int64_t>(steps_.size())) {
        return StepBegin{survey_.events, survey_.end};
      }
      return steps_[at];
    };
    const StepBegin first = begin_of(step - 1);
    const StepBegin last = begin_of(step + 2);
    survey_.detail_begin = std::max(first.event, survey_.peak_event - most / 2);
    survey_.detail_end =
        std::min(last.event, survey_.peak_event + most / 2 + 1);
    survey_.detail_begin_time = first.time;
    survey_.detail_end_time = last.time;
  }

  BlockBooks books_;
  LargestAreas areas_;
  TimelineSurvey& survey_;
  int64_t start_ = 0;
  int64_t begin_ = std::numeric_limits<int64_t>::max();
  int64_t end_ = std::numeric_limits<int64_t>::min();
  std::vector<StepBegin> steps_;
};

// Second pass: the blocks that are alive anywhere in the detail.
class AliveInDetail final : public TraceVisitor {
 public:
  explicit AliveInDetail(TimelineSurvey& survey) : survey_(survey) {}

  void OnSample(const CurveSample& /*sample*/) override { ++events_; }
  void OnBlock(const BlockEvent& event) override {
    books_.Apply(event);
    const bool is_in =
        events_ >= survey_.detail_begin && events_ < survey_.detail_end;
    if (is_in && events_ == survey_.detail_begin) {
      for (const auto& [number, block] : books_.alive()) {
        survey_.blocks.insert(number);
      }
    } else if (is_in && event.what == BlockEvent::What::kAllocate) {
      survey_.blocks.insert(event.block);
    }
    ++events_;
  }

 private:
  TimelineSurvey& survey_;
  BlockBooks books_;
  int64_t events_ = 0;
};

}  // namespace

absl::StatusOr<TimelineSurvey> SurveyTimeline(const TraceSource& source,
                                              const TimelineOptions& options) {
  TimelineSurvey survey;
  Extent extent(options, survey);
  if (const auto end = source(extent); !end.ok()) return end.status();
  extent.Finish(options);
  AliveInDetail alive(survey);
  if (const auto end = source(alive); !end.ok()) return end.status();
  return survey;
}

}  // namespace ebbtide
