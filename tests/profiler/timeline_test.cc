#include "profiler/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

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

// A saved tensor that a plan drops and recomputes, and a parameter.
Trace TraceOfBlocks() {
  using What = BlockEvent::What;
  Trace trace;
  trace.names = {"addmm", "Float [4]", "AddmmBackward0", "h.3.fc"};
  trace.blocks = {
      {What::kAllocate, 10, 0, Bytes{100}, Kind::kOther, -1, Bytes{1}},
      {What::kRetag, 20, 0, {}, Kind::kParameter, -1, Bytes{1}},
      {What::kAllocate, 30, 1, Bytes{50}, Kind::kOther, 0, Bytes{1}},
      {What::kRetag, 40, 1, {}, Kind::kSaved, -1, Bytes{1}},
      {What::kFree, 60, 1, {}, Kind::kOther, -1, Bytes{1}},
      {What::kAllocate, 80, 2, Bytes{50}, Kind::kScratch, -1, Bytes{1}}};
  trace.evictions = {{50, 0, Bytes{50}, Eviction::How::kDrop, 1, true}};
  trace.notes = {{BlockNote::What::kShape, 1, 1, kNoBlock},
                 {BlockNote::What::kUnpackedBy, 1, 2, kNoBlock},
                 {BlockNote::What::kUnpackedBy, 1, 2, kNoBlock},
                 {BlockNote::What::kOfLayer, 1, 3, kNoBlock},
                 {BlockNote::What::kReturns, 2, -1, 1}};
  return trace;
}

TEST(TimelineTest, ABlockTellsOfItsCausesAndItsValueOfItsFate) {
  const Timeline timeline = MustMake(TraceOfBlocks());
  constexpr int kParameter = static_cast<int>(Kind::kParameter);
  constexpr int kSaved = static_cast<int>(Kind::kSaved);
  using Causes = std::vector<std::pair<int64_t, int>>;
  ASSERT_EQ(timeline.blocks.size(), 3);
  const auto& [parameter, saved, again] =
      std::tie(timeline.blocks[0], timeline.blocks[1], timeline.blocks[2]);
  EXPECT_EQ(parameter.causes, (Causes{{0, 0}, {1, kParameter}}));
  EXPECT_EQ(parameter.end, 6);  // alive at the end
  EXPECT_EQ(saved.causes, (Causes{{2, kWorkspace}, {3, kSaved}}));
  EXPECT_EQ(saved.begin, 2);
  EXPECT_EQ(saved.end, 4);
  EXPECT_EQ(saved.end_time, 60);
  EXPECT_EQ(timeline.names[saved.name], "addmm");
  EXPECT_EQ(timeline.names[saved.shape], "Float [4]");
  EXPECT_EQ(timeline.names[saved.layer], "h.3.fc");
  EXPECT_EQ(parameter.layer, -1);
  EXPECT_EQ(saved.unpacked_by, std::vector<int>{2});
  EXPECT_EQ(saved.evicted, 4);  // between the fourth event and the fifth
  EXPECT_TRUE(saved.planned);
  EXPECT_EQ(saved.returned, 6);
  EXPECT_EQ(again.value, 1);
  // Working memory is distinct from other bytes.
  EXPECT_EQ(timeline.curve[2].live[kWorkspace], Bytes{50});
  EXPECT_EQ(timeline.curve[2].live[0], Bytes{1});
}

TEST(TimelineTest, OfManyBlocksThoseThatCoverMostStayAndAllAroundThePeak) {
  using What = BlockEvent::What;
  Trace trace;
  int64_t time = 0;
  const auto live_for = [&](int64_t block, int64_t bytes, int64_t nanos) {
    trace.blocks.push_back({What::kAllocate, time, block, Bytes{bytes}});
    trace.blocks.push_back({What::kFree, time += nanos, block});
  };
  for (int64_t i = 0; i < 1000; ++i) {
    live_for(i, i == 700 ? 100 : 10, i == 300 ? 1'000'000 : 5);
  }
  const Timeline timeline = MustMake(trace, {.detail = 8, .blocks = 3});
  std::vector<int64_t> numbers;
  for (const TimelineBlock& block : timeline.blocks) {
    numbers.push_back(block.number);
  }
  EXPECT_EQ(timeline.peak_event, 1400);
  EXPECT_THAT(numbers, testing::IsSupersetOf({300, 698, 699, 700, 701, 702}));
  EXPECT_LE(numbers.size(), 8);
}

TEST(TimelineTest, AnEmptyTraceGivesAnEmptyTimeline) {
  const Timeline timeline = MustMake({});
  EXPECT_EQ(timeline.peak, Bytes{0});
  const auto json = nlohmann::json::parse(TimelineToJson(timeline));
  EXPECT_EQ(json["nanos"], 0);
  EXPECT_TRUE(json["rows"].empty());
}

TEST(TimelineTest, TwoRunsAreListedWithTheirFiles) {
  Trace trace;
  trace.steps = {{0, 5, 9, Bytes{50}}};
  const std::string text =
      TimelinesToJson({{"<a>", MustMake(trace)}, {"b", MustMake({})}});
  EXPECT_THAT(text, Not(HasSubstr("<")));
  const auto json = nlohmann::json::parse(text);
  ASSERT_EQ(json["runs"].size(), 2);
  EXPECT_EQ(json["runs"][0]["file"], "<a>");
  EXPECT_EQ(json["runs"][0]["peak"], 50);
  EXPECT_EQ(json["runs"][1]["file"], "b");
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
