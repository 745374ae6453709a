// Times one solver of chains, for `./dev bench chain`: prints a JSON object.
//   chain_speed table SOLVER STAGES whole|real THREADS REPEATS
//   chain_speed minpeak LAYERS REPEATS
//   chain_speed chain STAGES whole|real   the same chain as plain numbers: fw,
//                                         bw, x, xb, ft, bt, a line each, each
//                                         one longer than its list and padded
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "absl/time/clock.h"
#include "planner/chain_table.h"
#include "planner/min_peak.h"

namespace ebbtide {
namespace {

constexpr int kSlots = 500;
constexpr double kShare = 0.35;  // the budget's, of all saved sets

// x in [1, 4], xb/x in [2, 6], fw in [0.5, 3], bw twice fw, ft a fifth and bt
// two fifths of xb, in slots; whole: times are multiples of 1/1024.
Chain RandomChain(int stages, bool whole) {
  std::mt19937 rng(1);
  const auto pick = [&](double low, double high) {
    return low + (high - low) * (rng() / 4294967296.0);
  };
  std::vector<double> x(stages + 1);
  std::vector<double> xb(stages + 1);
  double sum = 0;
  for (int i = 0; i <= stages; ++i) {
    x[i] = pick(1, 4);
    xb[i] = i == 0 ? x[i] : x[i] * pick(2, 6);
    sum += i == 0 ? 0 : xb[i];
  }
  const double unit = kShare * sum / kSlots;
  const auto slots = [&](double size) {
    return Bytes{static_cast<int64_t>(std::ceil(size / unit))};
  };
  Chain c;
  for (int i = 0; i <= stages; ++i) {
    c.x.push_back(slots(x[i]));
    c.xb.push_back(slots(xb[i]));
    if (i == stages) break;
    const double time = pick(0.5, 3);
    c.fw.push_back(whole ? std::round(time * 1024) / 1024 : time);
    c.bw.push_back(2 * c.fw[i]);
    c.ft.push_back(slots(0.2 * xb[i + 1]));
    c.bt.push_back(slots(0.4 * xb[i + 1]));
  }
  c.bw.push_back(0);
  c.bt.push_back(Bytes{0});
  return c;
}

void PrintChain(const Chain& c) {
  for (const auto* list : {&c.fw, &c.bw}) {
    for (int i = 0; i <= Stages(c); ++i) {
      std::printf("%.17g ", i < list->size() ? (*list)[i] : 0.0);
    }
    std::printf("\n");
  }
  for (const auto& [list, size] :
       {std::pair{&c.x, Stages(c) + 2}, std::pair{&c.xb, Stages(c) + 2},
        std::pair{&c.ft, Stages(c) + 1}, std::pair{&c.bt, Stages(c) + 1}}) {
    for (int i = 0; i < size; ++i) {
      std::printf("%lld ", i < list->size()
                               ? static_cast<long long>(Count((*list)[i]))
                               : 0LL);
    }
    std::printf("\n");
  }
}

template <class Function>
double LeastSeconds(int repeats, const Function& function) {
  double least = 1e9;
  for (int k = 0; k < repeats; ++k) {
    const absl::Time start = absl::Now();
    function();
    least = std::min(least, absl::ToDoubleSeconds(absl::Now() - start));
  }
  return least;
}

int RunTable(const char* name, int stages, bool whole, int threads,
             int repeats) {
  const auto solver = ParseChainSolver(name);
  if (!solver.has_value()) return 2;
  const Chain chain = RandomChain(stages, whole);
  size_t memory = 0;
  Time time = 0;
  const double seconds = LeastSeconds(repeats, [&] {
    const auto table =
        MakeChainTable(CountSlots(chain, Bytes{kSlots}, kSlots, Rounding::kUp),
                       *solver, threads);
    memory = table->MemoryUsed();
    time = table->TimeAt(Bytes{kSlots}).value_or(-1);
  });
  std::printf("{\"seconds\": %.6f, \"memory\": %zu, \"time\": %.6f}\n", seconds,
              memory, time);
  return 0;
}

// Mean time of one chain among so many that they have a million layers
// together: with one short chain, repeated, the processor learns the branches.
int RunMinPeak(int layers, int repeats) {
  constexpr int kTogether = 1000000;
  std::mt19937 rng(1);
  std::vector<std::vector<int64_t>> chains(std::max(1, kTogether / layers));
  for (std::vector<int64_t>& sizes : chains) {
    sizes.resize(layers);
    for (int64_t& size : sizes) size = 1 + rng() % 1000;
  }
  int64_t peak = 0;
  const double seconds = LeastSeconds(repeats, [&] {
    for (const std::vector<int64_t>& sizes : chains) {
      peak = std::max(peak, MinPeak(sizes).peak);
    }
  });
  std::printf("{\"seconds\": %.9f, \"peak\": %lld}\n",
              seconds / static_cast<double>(chains.size()),
              static_cast<long long>(peak));
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  const auto is = [&](int k, const char* word) {
    return std::strcmp(argv[k], word) == 0;
  };
  if (argc == 7 && is(1, "table")) {
    return ebbtide::RunTable(argv[2], std::atoi(argv[3]), is(4, "whole"),
                             std::atoi(argv[5]), std::atoi(argv[6]));
  }
  if (argc == 4 && is(1, "minpeak")) {
    return ebbtide::RunMinPeak(std::atoi(argv[2]), std::atoi(argv[3]));
  }
  if (argc == 4 && is(1, "chain")) {
    ebbtide::PrintChain(
        ebbtide::RandomChain(std::atoi(argv[2]), is(3, "whole")));
    return 0;
  }
  return 2;
}
