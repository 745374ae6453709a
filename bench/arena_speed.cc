// Times, in batches of 64, of allocations and releases by a planned arena, by a
// page arena on demand between many holes, and by the model of PyTorch's
// allocator.
//
//   arena_speed MODE BATCHES     MODE: planned, demand, native, native-holes
//
// prints one JSON object with nanoseconds per operation. Under callgrind with
// --collect-atstart=no only the operations of one kind are counted:
//
//   arena_speed MODE BATCHES allocate|free
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "allocator/arena/planned_arena.h"
#include "allocator/arena/step_trace.h"
#include "allocator/replay/policy.h"
#include "bench/arena_steps.h"

namespace ebbtide {
namespace {

constexpr int kHoles = 65'536;
char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);

// The measured calls: each has addresses of its own.
template <typename Arena>
struct ArenaCalls {
  Arena& arena;
  void BeginStep() const {
    if constexpr (std::is_same_v<Arena, PlannedArena>) arena.BeginStep();
  }
  int64_t Allocate(int64_t size) const {
    return static_cast<char*>(arena.Allocate(Bytes{size}, 0)) - kBase;
  }
  void Free(int64_t address) const { arena.Free(kBase + address); }
};
struct PolicyCalls {
  ReplayPolicy& policy;
  void BeginStep() const {}
  int64_t Allocate(int64_t size) const { return policy.Allocate(size, 0); }
  void Free(int64_t address) const { policy.Free(address); }
};

// As many pages as are asked for, and one stream.
class NoDevice final : public PageSystem, public StreamOrder {
 public:
  Bytes page() const override { return Bytes{2 << 20}; }
  absl::StatusOr<char*> Reserve(Bytes) override { return kBase; }
  int64_t Room() const override { return 1 << 20; }
  absl::StatusOr<uint64_t> Create() override { return 1; }
  void Release(uint64_t) override {}
  absl::Status Map(char*, absl::Span<const uint64_t>) override {
    return absl::OkStatus();
  }
  absl::Status Unmap(char*, int64_t) override { return absl::OkStatus(); }
  absl::Status MapAgain(char*, absl::Span<const uint64_t>) override {
    return absl::OkStatus();
  }
  absl::Status UnmapAlias(char*, int64_t) override { return absl::OkStatus(); }
  int streams() const override { return 1; }
  absl::StatusOr<StreamMark> Mark(int) override { return nullptr; }
  absl::Status RunBehind(const StreamMark&, int) override {
    return absl::OkStatus();
  }
  bool IsOver(const StreamMark&) override { return true; }
  absl::Status Wait(const StreamMark&) override { return absl::OkStatus(); }
};

// Between so many holes: 64 requests, then 64 releases.
template <typename Calls>
void RunAmongHoles(const Calls& calls, int batches, Clock* allocating,
                   Clock* freeing) {
  std::mt19937_64 random(kSeed);
  std::vector<int64_t> live;
  for (int i = 0; i < 2 * kHoles; ++i) {
    live.push_back(calls.Allocate(SizeOf(&random)));
  }
  // No two that are neighbours, so that each leaves a hole.
  std::vector<int64_t> kept;
  for (int i = 0; i < 2 * kHoles; ++i) {
    if (i % 2 == 0) {
      calls.Free(live[i]);
    } else {
      kept.push_back(live[i]);
    }
  }
  for (int done = 0; done < batches; ++done) {
    int64_t sizes[kBatch];
    for (int64_t& size : sizes) size = SizeOf(&random);
    int64_t* const last = &kept[kept.size() - kBatch];
    for (int i = 0; i < kBatch; ++i) {
      std::swap(last[i], kept[random() % kept.size()]);
    }
    freeing->Time([&] {
      for (int i = 0; i < kBatch; ++i) calls.Free(last[i]);
    });
    allocating->Time([&] {
      for (int i = 0; i < kBatch; ++i) last[i] = calls.Allocate(sizes[i]);
    });
  }
}

int Run(const std::string& mode, int batches, const std::string& counted) {
  Clock allocating(counted == "allocate");
  Clock freeing(counted == "free");
  const Step step = RandomStep();
  const auto native = MakeReplayPolicy("native");
  if (mode == "planned") {
    auto layout = LayOut(step.requests);
    if (!layout.ok()) return 1;
    PlannedArena arena(std::move(layout->plan), kBase, nullptr);
    RunSteps(step, ArenaCalls<PlannedArena>{arena}, batches, &allocating,
             &freeing);
    const ArenaCounts counts = arena.counts();
    if (counts.unexpected + counts.occupied > 0) return 1;
  } else if (mode == "demand") {
    NoDevice device;
    PageArena arena(&device, &device);
    if (!arena.Reserve(Bytes{int64_t{1} << 40}).ok()) return 1;
    RunAmongHoles(ArenaCalls<PageArena>{arena}, batches, &allocating, &freeing);
  } else if (mode == "native") {
    RunSteps(step, PolicyCalls{*native}, batches, &allocating, &freeing);
  } else if (mode == "native-holes") {
    RunAmongHoles(PolicyCalls{*native}, batches, &allocating, &freeing);
  } else {
    return 2;
  }
  Print(&allocating, &freeing);
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return ebbtide::Run(argv[1], std::atoi(argv[2]), argc > 3 ? argv[3] : "");
}
