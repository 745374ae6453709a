// Cost of one allocation and its release: the C library's posix_memalign, as
// PyTorch calls it, against HostAllocator.
#include <cstdlib>

#include "allocator/host_allocator.h"
#include "benchmark/benchmark.h"

namespace ebbtide {
namespace {

void BM_PosixMemalign(benchmark::State& state) {
  for (auto _ : state) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, state.range(0)) != 0) std::abort();
    benchmark::DoNotOptimize(block);
    free(block);
  }
}
BENCHMARK(BM_PosixMemalign)->Arg(64)->Arg(1024)->Arg(16384)->Arg(1 << 20);

void BM_HostAllocatorSmall(benchmark::State& state) {
  HostAllocator& allocator = HostAllocator::Global();
  for (auto _ : state) {
    void* block = allocator.Allocate(state.range(0));
    benchmark::DoNotOptimize(block);
    allocator.FreeSmall(block);
  }
}
BENCHMARK(BM_HostAllocatorSmall)->Arg(64)->Arg(1024)->Arg(16384);

void BM_HostAllocatorLarge(benchmark::State& state) {
  HostAllocator& allocator = HostAllocator::Global();
  for (auto _ : state) {
    void* block = allocator.Allocate(state.range(0));
    benchmark::DoNotOptimize(block);
    allocator.FreeLarge(block);
  }
}
BENCHMARK(BM_HostAllocatorLarge)->Arg(65536)->Arg(1 << 20);

}  // namespace
}  // namespace ebbtide

BENCHMARK_MAIN();
