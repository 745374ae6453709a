// Fuzzes the reader of traces with libFuzzer: whatever the bytes are, what is
// read of them can be drawn and exported.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "profiler/chrome_trace.h"
#include "profiler/snapshot.h"
#include "profiler/timeline.h"
#include "profiler/timeline_json.h"
#include "profiler/trace.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

bool IsJson(const std::string& text) { return nlohmann::json::accept(text); }

}  // namespace
}  // namespace ebbtide

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto trace = ebbtide::ParseTrace(bytes, "fuzz");
  if (!trace.ok()) return 0;
  // It has been read whole, so it can be read again.
  const auto source = [&bytes](ebbtide::TraceVisitor& visitor) {
    return ebbtide::VisitTraceBytes(bytes, "fuzz", visitor);
  };
  const auto timeline = ebbtide::MakeTimeline(
      source, {.points = 64, .detail = 16, .blocks = 16, .intervals = 64});
  ebbtide::Require(timeline.ok() &&
                   ebbtide::IsJson(ebbtide::TimelineToJson(*timeline)));
  std::ostringstream chrome;
  ebbtide::Require(ebbtide::WriteChromeTrace(source, chrome, 64).ok() &&
                   ebbtide::IsJson(chrome.str()));
  std::ostringstream snapshot;
  ebbtide::WriteSnapshot(source, snapshot).IgnoreError();  // fails for version
                                                           // 1
  return 0;
}
