// The ledger, its observer and the trace together: kinds add up to what is
// alive at every event of a file.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "allocator/ledger.h"
#include "gtest/gtest.h"
#include "profiler/trace.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

constexpr Bytes kLeast{1000};  // smaller blocks are only counted

TraceWriter* writer = nullptr;
int64_t now = 0;

constexpr Ledger::Observer kObserver = {
    .on_enter =
        [](const void* /*block*/, Bytes bytes, Kind kind, Bytes live) {
          return bytes < kLeast ? kNoBlock
                                : writer->Allocate(now, bytes, kind, -1, live);
        },
    .on_retag = [](int64_t number, Kind kind,
                   Bytes live) { writer->Retag(now, number, kind, live); },
    .on_give = [](int64_t number, Bytes bytes,
                  Bytes live) { writer->Free(now, number, bytes, live); },
};

struct Held {
  Bytes bytes{};
  Kind kind = Kind::kOther;
};

// By kind; small blocks are kOther whatever they were entered as.
BytesByKind SumOf(const std::vector<Held>& held, Bytes counted) {
  BytesByKind sum{};
  sum[0] = counted;
  for (const Held& each : held) {
    const bool is_small = each.bytes < kLeast;
    sum[is_small ? 0 : static_cast<int>(each.kind)] += each.bytes;
  }
  return sum;
}

TEST(LedgerTraceTest, KindsAddUpToLiveBytesAtEveryEvent) {
  const std::string path = testing::TempDir() + "/ledger.ebbtide";
  auto opened = TraceWriter::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  writer = opened->get();
  Ledger ledger;
  ledger.SetObserver(&kObserver);
  std::mt19937 rng(12);
  const std::vector<char> memory(64);
  std::vector<Held> held(memory.size());
  std::map<int64_t, BytesByKind> expected;
  std::map<int64_t, Bytes> live;
  Bytes counted{};
  for (now = 1; now <= 30'000; ++now) {
    if (rng() % 3 == 0) {
      counted += Bytes{64};
      ledger.Take(Bytes{64});
    }
    const size_t at = rng() % held.size();
    const Kind kind = static_cast<Kind>(rng() % kKinds);
    if (held[at].bytes == Bytes{0}) {
      held[at] = {Bytes{1 + static_cast<int64_t>(rng() % 5000)}, kind};
      ledger.OnAllocate(&memory[at], held[at].bytes, kind);
    } else if (rng() % 2 == 0) {
      ledger.Retag(&memory[at], held[at].kind = kind);
    } else {
      ledger.OnFree(&memory[at]);
      held[at] = {};
    }
    expected[now] = SumOf(held, counted);
    live[now] = ledger.live();
  }
  ASSERT_TRUE(writer->Close().ok());
  const auto trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok());
  ASSERT_GT(trace->curve.size(), 10'000);
  for (const CurveSample& sample : trace->curve) {
    Bytes sum{};
    for (const Bytes each : sample.live) sum += each;
    ASSERT_EQ(sum, live.at(sample.time)) << sample.time;
    ASSERT_EQ(sample.live, expected.at(sample.time)) << sample.time;
  }
}

}  // namespace
}  // namespace ebbtide
