#include "profiler/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "profiler/timeline_json.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;
using testing::Not;

Timeline MustMake(const Trace& trace, const TimelineOptions& options = {}) {
  auto timeline = MakeTimeline(SourceOf(trace), options);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

BytesByKind Live(int64_t other, int64_t saved) {
  BytesByKind live{};
  live[static_cast<int>(Kind::kOther)] = Bytes{other};
  live[static_cast<int>(Kind::kSaved)] = Bytes{saved};
  return live;
}

TEST(TimelineTest, ThinningKeepsThePeakAndTheEnds) {
  Trace trace;
  std::mt19937 rng(2);
  for (int i = 0; i < 50'000; ++i) {
    trace.curve.push_back({1000 + i, Live(rng() % 1000, 0)});
  }
  trace.curve[31'234].live = Live(400, 5000);
  const Timeline timeline = MustMake(trace, {.points = 300, .detail = 20});
  EXPECT_LE(timeline.curve.size(), 330);
  EXPECT_EQ(timeline.curve.front().time, trace.curve.front().time);
  EXPECT_EQ(timeline.curve.back().time, trace.curve.back().time);
  EXPECT_EQ(timeline.peak, Bytes{5400});
  EXPECT_EQ(timeline.peak_time, 1000 + 31'234);
  for (size_t i = 1; i < timeline.curve.size(); ++i) {
    EXPECT_LT(timeline.curve[i - 1].time, timeline.curve[i].time);
    const CurveSample& sample = trace.curve[timeline.curve[i].event];
    EXPECT_EQ(timeline.curve[i].time, sample.time);
    EXPECT_EQ(timeline.curve[i].live, CausesOf(sample.live, Bytes{0}));
  }
  // Around the peak nothing is left out.
  EXPECT_EQ(timeline.peak_event, 31'234);
  EXPECT_EQ(timeline.detail_begin, 31'224);
  EXPECT_EQ(timeline.detail_end, 31'245);
  const auto in_detail = [&](const TimelinePoint& point) {
    return point.event >= 31'224 && point.event < 31'245;
  };
  EXPECT_EQ(
      std::count_if(timeline.curve.begin(), timeline.curve.end(), in_detail),
      21);
}

TEST(TimelineTest, AShortCurveIsKeptAsItIs) {
  Trace trace;
  trace.curve = {{10, Live(1, 2)}, {500, Live(3, 4)}, {90'000, Live(0, 1)}};
  const Timeline timeline = MustMake(trace);
  ASSERT_EQ(timeline.curve.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(timeline.curve[i].time, trace.curve[i].time);
    EXPECT_EQ(timeline.curve[i].event, i);
    EXPECT_EQ(timeline.curve[i].live, CausesOf(trace.curve[i].live, Bytes{0}));
  }
  EXPECT_EQ(timeline.begin, 10);
  EXPECT_EQ(timeline.end, 90'000);
}

TEST(TimelineTest, SpansCloserThanAnIntervalAreDrawnAsOne) {
  Trace trace;
  trace.names = {"short", "long"};
  constexpr SpanKind kRecompute = SpanKind::kRecompute;
  trace.spans = {{kRecompute, 0, 0, 100, Bytes{1}},
                 {kRecompute, 1, 150, 800, Bytes{2}},
                 {kRecompute, 0, 5000, 9000, Bytes{4}},
                 {SpanKind::kStall, 0, 9'000, 100'000}};
  // The peak, and so the detail, is after them.
  trace.curve = {{90'000, Live(1, 1)}};
  trace.steps = {{0, 0, 9'000}, {1, 9'500, 9'600}, {2, 80'000, 95'000}};
  const Timeline timeline = MustMake(trace, {.intervals = 100});
  const auto& lane = timeline.lanes[static_cast<int>(kRecompute)];
  ASSERT_EQ(lane.size(), 2);
  EXPECT_EQ(lane[0].begin, 0);
  EXPECT_EQ(lane[0].end, 800);
  EXPECT_EQ(timeline.names[lane[0].name], "long");
  EXPECT_EQ(lane[0].count, 2);
  EXPECT_EQ(lane[0].bytes, Bytes{3});
  EXPECT_EQ(lane[1].count, 1);
}

TEST(TimelineTest, RowsAddUpToTheTotalAndOrderByWhatWasEvicted) {
  Trace trace;
  trace.names = {"kept", "dropped", "spilled"};
  trace.spans = {{SpanKind::kForward, 0, 0, 10},
                 {SpanKind::kForward, 1, 10, 20},
                 {SpanKind::kRecompute, 1, 30, 37, Bytes{100}},
                 {SpanKind::kOffload, 2, 20, 25, Bytes{300}},
                 {SpanKind::kRestore, 2, 40, 44, Bytes{300}}};
  trace.evictions = {{21, 1, Bytes{100}, Eviction::How::kDrop},
                     {22, 2, Bytes{300}, Eviction::How::kSpill}};
  const Timeline timeline = MustMake(trace);
  ASSERT_EQ(timeline.rows.size(), 2);
  EXPECT_EQ(timeline.rows[0].name, "spilled");
  EXPECT_EQ(timeline.rows[0].spilled, Bytes{300});
  EXPECT_EQ(timeline.rows[1].name, "dropped");
  EXPECT_EQ(timeline.rows[1].drops, 1);
  EXPECT_EQ(timeline.rows[1].nanos[static_cast<int>(SpanKind::kRecompute)], 7);
  EXPECT_EQ(timeline.total.dropped, Bytes{100});
  EXPECT_EQ(timeline.total.spilled, Bytes{300});
  EXPECT_EQ(timeline.total.nanos[static_cast<int>(SpanKind::kForward)], 20);
}

TEST(TimelineTest, AnEmptyTraceGivesAnEmptyTimeline) {
  const Timeline timeline = MustMake({});
  EXPECT_EQ(timeline.peak, Bytes{0});
  const auto json = nlohmann::json::parse(TimelineToJson(timeline));
  EXPECT_EQ(json["nanos"], 0);
  EXPECT_TRUE(json["rows"].empty());
}

TEST(TimelineTest, JsonIsSafeInsideAScriptWhateverTheNames) {
  Trace trace;
  trace.names = {"</script><b>", "\xff\xfe"};
  trace.evictions = {{5, 0, Bytes{1}}, {6, 1, Bytes{1}}};
  trace.budgets = {{1, Bytes{77}}};
  trace.steps = {{3, 5, 9, Bytes{50}}, {4, 10, 0, Bytes{0}}};
  trace.texts = {{6, TextKind::kNote, "<!-- note"},
                 {0, TextKind::kRun, R"({"command":["python"]})"}};
  const std::string text = TimelineToJson(MustMake(trace));
  EXPECT_THAT(text, Not(HasSubstr("<")));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["rows"][0]["name"], "</script><b>");
  EXPECT_EQ(json["notes"][0][1], "<!-- note");
  EXPECT_EQ(json["run"]["command"][0], "python");
  // Set before anything happened: from the beginning on.
  EXPECT_EQ(json["budgets"][0], (std::vector<int>{0, 77}));
  EXPECT_EQ(json["steps"][1], (std::vector<int>{4, 5, -1, 0}));
}

}  // namespace
}  // namespace ebbtide
