#include "profiler/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

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

  const auto json = nlohmann::json::parse(ToChromeTrace(trace));
  std::map<std::string, std::vector<nlohmann::json>> by_phase;
  for (const auto& event : json["traceEvents"]) {
    EXPECT_EQ(event["pid"], 42);
    by_phase[event["ph"]].push_back(event);
  }
  EXPECT_EQ(by_phase["M"].size(), 7);  // the names of the rows
  ASSERT_EQ(by_phase["X"].size(), 2);
  const auto& copy = by_phase["X"][0];
  EXPECT_EQ(copy["name"], "aten::mm");
  EXPECT_EQ(copy["cat"], "offload");
  EXPECT_EQ(copy["ts"], 1234.567);
  EXPECT_EQ(copy["dur"], 1000.001);
  EXPECT_EQ(copy["args"]["bytes"], 9);
  // A step without an end is left out.
  EXPECT_EQ(by_phase["X"][1]["name"], "step 7");
  ASSERT_EQ(by_phase["C"].size(), 2);
  EXPECT_EQ(by_phase["C"][0]["args"]["parameters"], 2);
  EXPECT_EQ(by_phase["C"][1]["args"]["budget"], 1 << 20);
  ASSERT_EQ(by_phase["i"].size(), 1);
  EXPECT_EQ(by_phase["i"][0]["cat"], "spill");
  EXPECT_EQ(by_phase["i"][0]["tid"], copy["tid"]);
}

}  // namespace
}  // namespace ebbtide
