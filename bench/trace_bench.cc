// Cost of one record of a run's trace on the thread that adds it.
#include "benchmark/benchmark.h"
#include "profiler/clock.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

void BM_AddSpan(benchmark::State& state) {
  const auto writer = *TraceWriter::Open("/dev/null");
  const int name = writer->Name("aten::addmm");
  int64_t time = NowNanos();
  for (auto _ : state) {
    writer->Add(Span{SpanKind::kForward, name, time, time + 10'000});
    time += 12'000;
  }
  state.counters["dropped"] = writer->dropped();
}
BENCHMARK(BM_AddSpan);

// A block's life: both of its records.
void BM_AddBlock(benchmark::State& state) {
  const auto writer = *TraceWriter::Open("/dev/null");
  int64_t time = NowNanos();
  constexpr Bytes kBytes{1 << 20};
  for (auto _ : state) {
    time += 12'000;
    const int64_t block =
        writer->Allocate(time, kBytes, Kind::kSaved, -1, kBytes);
    if (block != kNoBlock) writer->Free(time + 5'000, block, kBytes, Bytes{0});
  }
  state.counters["dropped"] = writer->dropped();
}
BENCHMARK(BM_AddBlock);

void BM_Name(benchmark::State& state) {
  const auto writer = *TraceWriter::Open("/dev/null");
  for (auto _ : state) {
    benchmark::DoNotOptimize(writer->Name("aten::native_layer_norm"));
  }
}
BENCHMARK(BM_Name);

}  // namespace
}  // namespace ebbtide

BENCHMARK_MAIN();
