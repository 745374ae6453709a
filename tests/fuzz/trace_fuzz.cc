// Fuzzes the reader of traces with libFuzzer: whatever the bytes are, what is
// read of them can be drawn and exported.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "nlohmann/json.hpp"
#include "profiler/chrome_trace.h"
#include "profiler/timeline.h"
#include "profiler/trace.h"

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
  const auto timeline = ebbtide::MakeTimeline(*trace, /*resolution=*/64);
  ebbtide::Require(ebbtide::IsJson(ebbtide::TimelineToJson(timeline)));
  ebbtide::Require(ebbtide::IsJson(ebbtide::ToChromeTrace(*trace)));
  return 0;
}
