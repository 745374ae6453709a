#include "profiler/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;

std::map<std::string, std::vector<Json>> ByPhase(const TraceSource& source,
                                                 int points = 1000) {
  std::ostringstream out;
  EXPECT_TRUE(WriteChromeTrace(source, out, points).ok());
  std::map<std::string, std::vector<Json>> by_phase;
  const Json json = Json::parse(out.str());
  for (const auto& event : json["traceEvents"]) {
    by_phase[event["ph"]].push_back(event);
  }
  return by_phase;
}

std::map<std::string, std::vector<Json>> ByPhase(const Trace& trace,
                                                 int points = 1000) {
  return ByPhase(SourceOf(trace), points);
}

TEST(ChromeTraceTest, EverythingHasAnEventAtItsTime) {
  Trace trace;
  trace.process = 42;
  trace.start = 1'000'000'000'000;
  const int64_t t = trace.start;
  trace.names = {"aten::mm"};
  trace.spans = {
      {SpanKind::kOffload, 0, t + 1'234'567, t + 2'234'568, Bytes{9}}};
  trace.curve = {{t + 5, {Bytes{1}, Bytes{2}}}};
  trace.budgets = {{t + 6, Bytes{1 << 20}}};
  trace.steps = {{7, t + 10, t + 20, Bytes{3}}, {8, t + 30, 0, Bytes{0}}};
  trace.evictions = {{t + 11, 0, Bytes{9}, Eviction::How::kSpill}};

  auto by_phase = ByPhase(trace);
  for (const auto& [phase, events] : by_phase) {
    for (const auto& event : events) EXPECT_EQ(event["pid"], 42);
  }
  EXPECT_EQ(by_phase["M"].size(), 2 * 7 + 1);  // the rows, and the process
  ASSERT_EQ(by_phase["X"].size(), 2);
  const auto& copy = by_phase["X"][1];
  EXPECT_EQ(copy["name"], "aten::mm");
  EXPECT_EQ(copy["cat"], "offload");
  EXPECT_EQ(copy["ts"], 1234.567);
  EXPECT_EQ(copy["dur"], 1000.001);
  EXPECT_EQ(copy["args"]["bytes"], 9);
  // A step without an end is left out.
  EXPECT_EQ(by_phase["X"][0]["name"], "step 7");
  ASSERT_EQ(by_phase["C"].size(), 2);
  EXPECT_EQ(by_phase["C"][0]["args"]["parameters"], 2);
  EXPECT_EQ(by_phase["C"][1]["args"]["budget"], 1 << 20);
  ASSERT_EQ(by_phase["i"].size(), 1);
  EXPECT_EQ(by_phase["i"][0]["cat"], "offload");
  EXPECT_EQ(by_phase["i"][0]["tid"], copy["tid"]);
}

TEST(ChromeTraceTest, AnArrowLeadsFromACopyOutToEachCopyBack) {
  Trace trace;
  trace.names = {"relu"};
  trace.spans = {{SpanKind::kOffload, 0, 0, 10, Bytes{9}, 3},
                 {SpanKind::kOffload, 0, 10, 20, Bytes{9}, 4},
                 {SpanKind::kRestore, 0, 30, 40, Bytes{9}, 4},
                 {SpanKind::kRestore, 0, 40, 50, Bytes{9}, 3},
                 {SpanKind::kRestore, 0, 60, 70, Bytes{9}, 3},
                 {SpanKind::kRestore, 0, 80, 90, Bytes{9}, 5}};
  auto by_phase = ByPhase(trace);
  ASSERT_EQ(by_phase["s"].size(), 3);
  ASSERT_EQ(by_phase["f"].size(), 3);
  const std::vector<double> from = {0.010, 0, 0};
  const std::vector<double> to = {0.030, 0.040, 0.060};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(by_phase["s"][i]["id"], by_phase["f"][i]["id"]);
    EXPECT_EQ(by_phase["s"][i]["ts"], from[i]);
    EXPECT_EQ(by_phase["f"][i]["ts"], to[i]);
    EXPECT_NE(by_phase["s"][i]["tid"], by_phase["f"][i]["tid"]);
  }
}

void ExpectRowsNest(std::map<std::string, std::vector<Json>> by_phase) {
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> rows;
  ASSERT_EQ(by_phase["X"].size(), 3000);
  for (const auto& event : by_phase["X"]) {
    const int64_t begin = std::llround(1000 * event["ts"].get<double>());
    rows[event["tid"]].emplace_back(
        begin, begin + std::llround(1000 * event["dur"].get<double>()));
  }
  EXPECT_GT(rows.size(), 1);
  for (const auto& [row, spans] : rows) {
    for (const auto& [a, b] : spans) {
      for (const auto& [c, d] : spans) {
        EXPECT_FALSE(a < c && c < b && b < d) << row;
      }
    }
  }
}

TEST(ChromeTraceTest, SpansOfARowNestWhateverTheThreadsDid) {
  Trace trace;
  trace.names = {"op"};
  std::mt19937 rng(3);
  for (int i = 0; i < 3000; ++i) {
    const int64_t begin = rng() % 10'000;
    trace.spans.push_back({SpanKind::kForward, 0, begin,
                           begin + 1 + static_cast<int64_t>(rng() % 50)});
  }
  ExpectRowsNest(ByPhase(trace));
}

// A device's work is located when the next is looked at, so that a file may
// have what ended later first.
TEST(ChromeTraceTest, SpansOfARowNestWhereTheirEndsAreOutOfOrder) {
  ExpectRowsNest(ByPhase([](TraceVisitor& visitor) -> absl::StatusOr<TraceEnd> {
    visitor.OnName("op");
    std::mt19937 rng(3);
    for (int i = 0; i < 3000; ++i) {
      const int64_t begin = i + static_cast<int64_t>(rng() % 30);
      const int64_t end = begin + 1 + static_cast<int64_t>(rng() % 50);
      visitor.OnSpan({SpanKind::kForward, 0, begin, end});
    }
    return TraceEnd{.complete = true};
  }));
}

TEST(ChromeTraceTest, OfMoreEventsThanPointsTheHighestStays) {
  Trace trace;
  for (int i = 0; i < 5000; ++i) {
    trace.curve.push_back({i, {Bytes{i == 777 ? 100 : i % 7}}});
  }
  auto by_phase = ByPhase(trace, 300);
  EXPECT_LT(by_phase["C"].size(), 310);
  EXPECT_TRUE(std::any_of(
      by_phase["C"].begin(), by_phase["C"].end(), [](const Json& event) {
        return event["ts"] == 0.777 && event["args"]["other"] == 100;
      }));
}

}  // namespace
}  // namespace ebbtide
