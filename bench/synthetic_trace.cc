// Writes the trace of a long run that never was, for `./dev bench timeline`:
//
//   synthetic_trace FILE EVENTS
//
// Steps of a network of 48 layers within a budget: parameters and optimizer
// state stay, saved tensors come in forward and go in backward, each third of
// them by way of the disk and each fifth recomputed. EVENTS are the changes of
// live bytes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/clock.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

constexpr int kLayers = 48;
constexpr int kOpsOfLayer = 12;

class Run {
 public:
  Run(TraceWriter& writer, int64_t events)
      : writer_(writer), most_(events), time_(NowNanos()) {}

  void Write() {
    writer_.AddText({time_, TextKind::kRun, R"({"command":["synthetic"]})"});
    writer_.Add(BudgetChange{time_, Bytes{int64_t{9} << 30}});
    for (int i = 0; i < 4 * kLayers; ++i) {
      Allocate(int64_t{16} << 20,
               i < kLayers ? Kind::kParameter : Kind::kOptimizer, -1);
    }
    for (int64_t step = 0; events_ < most_; ++step) Step(step);
  }

 private:
  struct Held {
    int64_t block;
    Bytes bytes;
  };

  int64_t Allocate(int64_t size, Kind kind, int name) {
    const Bytes bytes{size};
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    ++events_;
    // The writer's thread has to keep up, as it has in a run.
    if (events_ % 20'000 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    return writer_.Allocate(time_, bytes, kind, name, live_);
  }
  void Free(const Held& held) {
    live_ -= held.bytes;
    ++events_;
    writer_.Free(time_, held.block, held.bytes, live_);
  }
  void AddSpan(SpanKind kind, const std::string& name, int64_t nanos,
               const Held& held = {kNoBlock, Bytes{}}) {
    writer_.Add(Span{.kind = kind,
                     .name = writer_.Name(name),
                     .begin = time_,
                     .end = time_ + nanos,
                     .bytes = held.bytes,
                     .value = held.block});
    time_ += nanos;
  }
  Held Save(int op, int layer);
  void Forward(std::vector<Held>& saved);
  void Backward(std::vector<Held>& saved);
  void Step(int64_t step) {
    peak_ = live_;
    writer_.BeginStep(step, time_);
    std::vector<Held> saved;
    Forward(saved);
    Backward(saved);
    time_ += 500'000;
    writer_.EndStep(step, time_, peak_);
  }

  TraceWriter& writer_;
  const int64_t most_;
  int64_t time_;
  int64_t events_ = 0;
  Bytes live_{};
  Bytes peak_{};
  std::mt19937 rng_{5};
};

Run::Held Run::Save(int op, int layer) {
  const int64_t bytes = (1 + static_cast<int64_t>(rng_() % 24)) << 19;
  const std::string name =
      "op" + std::to_string(op) + ".layer" + std::to_string(layer);
  const Held held = {Allocate(bytes, Kind::kSaved, writer_.Name(name)),
                     Bytes{bytes}};
  writer_.Add(BlockNote{
      .what = BlockNote::What::kShape,
      .block = held.block,
      .name =
          writer_.Name("Float [" + std::to_string(bytes / 4096) + ", 1024]")});
  return held;
}

void Run::Forward(std::vector<Held>& saved) {
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int op = 0; op < kOpsOfLayer; ++op) {
      const Held scratch = {
          Allocate(3 << 20, Kind::kOther, writer_.Name("matmul")),
          Bytes{3 << 20}};
      saved.push_back(Save(op, layer));
      AddSpan(SpanKind::kForward, "op" + std::to_string(op), 40'000);
      Free(scratch);
      if (op % 3 == 0) {
        writer_.Add(Eviction{time_, writer_.Name("op"), saved.back().bytes,
                             Eviction::How::kSpill, saved.back().block, true});
        AddSpan(SpanKind::kOffload, "op", 9'000, saved.back());
        Free(saved.back());
        writer_.Add(TierSample{time_, Bytes{}, live_});
      }
    }
  }
}

void Run::Backward(std::vector<Held>& saved) {
  for (int i = static_cast<int>(saved.size()) - 1; i >= 0; --i) {
    Held held = saved[i];
    if (i % kOpsOfLayer % 3 == 0) {
      AddSpan(SpanKind::kRestore, "op", 9'000, held);
      AddSpan(SpanKind::kStall, "op", 2'000, held);
      const Held back = {Allocate(Count(held.bytes), Kind::kSaved, -1),
                         held.bytes};
      writer_.Add(BlockNote{.what = BlockNote::What::kReturns,
                            .block = back.block,
                            .value = held.block});
      held = back;
    } else if (i % 5 == 0) {
      AddSpan(SpanKind::kRecompute, "op", 30'000, held);
    }
    writer_.Add(BlockNote{.what = BlockNote::What::kUnpackedBy,
                          .block = held.block,
                          .name = writer_.Name("OpBackward0")});
    AddSpan(SpanKind::kBackward, "OpBackward0", 70'000);
    Free(held);
  }
}

}  // namespace
}  // namespace ebbtide

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: synthetic_trace FILE EVENTS\n");
    return 2;
  }
  auto writer = ebbtide::TraceWriter::Open(
      arguments[1], {.max_size = ebbtide::Bytes{int64_t{1} << 34},
                     .buffer = ebbtide::Bytes{64 << 20}});
  if (!writer.ok()) return 1;
  ebbtide::Run(**writer, std::atoll(arguments[2])).Write();
  return (*writer)->dropped() == 0 && (*writer)->Close().ok() ? 0 : 1;
}
