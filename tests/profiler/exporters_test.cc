// All forms that a trace is exported in.
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "profiler/chrome_trace.h"
#include "profiler/snapshot.h"
#include "profiler/timeline.h"
#include "profiler/timeline_json.h"
#include "profiler/trace.h"
#include "profiler/trace_format.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

// Checksums that fit must not lead an exporter astray: many records of each
// kind, whose numbers are small, so that most of them refer to something.
TEST(ExportersTest, WhatIsReadOfNonsenseCanBeExported) {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = "EBBTIDE\n";
    char word[4];
    const auto add = [&](uint32_t value) {
      trace_format::PutU32(word, value);
      bytes.append(word, 4);
    };
    add(2);
    add(0);
    // A wrong record ends what is read: names and blocks come first.
    for (int record = 0; record < 60; ++record) {
      std::string payload = record < 4 ? std::string("\x02\x02") + "n"
                            : record < 12
                                ? std::string("\x0c\0\x02\x02\x08\x04\x02", 7)
                                : std::string(5 + rng() % 3, '\0');
      if (record >= 12) {
        for (char& c : payload) c = static_cast<char>(rng() % 6);
        constexpr char kTypes[] = {4, 5, 6, 8, 12, 13, 14, 15};
        payload[0] = kTypes[rng() % sizeof(kTypes)];
        const std::string before = bytes;
        add(payload.size());
        add(trace_format::Crc32c(payload.data(), payload.size()));
        bytes += payload;
        // Only what is valid behind the others.
        if (!ParseTrace(bytes, "nonsense")->damage.empty()) bytes = before;
        continue;
      }
      add(payload.size());
      add(trace_format::Crc32c(payload.data(), payload.size()));
      bytes += payload;
    }
    const auto source = [&](TraceVisitor& visitor) {
      return VisitTraceBytes(bytes, "nonsense", visitor);
    };
    ASSERT_GE(ParseTrace(bytes, "nonsense")->blocks.size(), 8);
    const auto timeline =
        MakeTimeline(source, {.points = 6, .detail = 4, .blocks = 3});
    ASSERT_TRUE(timeline.ok());
    EXPECT_TRUE(nlohmann::json::accept(TimelineToJson(*timeline)));
    std::ostringstream chrome;
    ASSERT_TRUE(WriteChromeTrace(source, chrome, 6).ok());
    EXPECT_TRUE(nlohmann::json::accept(chrome.str()));
    std::ostringstream snapshot;
    EXPECT_TRUE(WriteSnapshot(source, snapshot).ok());
  }
}

}  // namespace
}  // namespace ebbtide
