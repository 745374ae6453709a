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

void BM_AddSample(benchmark::State& state) {
  const auto writer = *TraceWriter::Open("/dev/null");
  CurveSample sample = {.time = NowNanos(), .live = {}};
  for (auto _ : state) {
    sample.time += 12'000;
    sample.live[0] += Bytes{1 << 20};
    writer->Add(sample);
  }
  state.counters["dropped"] = writer->dropped();
}
BENCHMARK(BM_AddSample);

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
