// A step arena with a program that asks it, on memory that only counts.
#ifndef EBBTIDE_TESTS_ALLOCATOR_STEP_ARENA_FIXTURE_H_
#define EBBTIDE_TESTS_ALLOCATOR_STEP_ARENA_FIXTURE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/step_arena.h"
#include "gtest/gtest.h"

namespace ebbtide {

inline char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);
inline constexpr int64_t kApart = 1 << 20;  // of runs

// Holes, and runs of at most so many bytes.
class Memory final : public ArenaMemory {
 public:
  absl::Status TakeHoles(std::vector<ArenaRun>* runs) override {
    for (const Bytes size : holes) runs->push_back(Run(size));
    return failure;
  }
  absl::Status TakeSmallHoles(std::vector<ArenaRun>* runs) override {
    for (const Bytes size : small_holes) runs->push_back(Run(size));
    return absl::OkStatus();
  }
  absl::Status Take(Bytes size, std::vector<ArenaRun>* runs) override {
    if (size > most) return absl::ResourceExhaustedError("no memory");
    runs->push_back(Run(size));
    return absl::OkStatus();
  }
  absl::Status Shorten(Bytes size, ArenaRun* run) override {
    if (Count(run->size - size) < least_rest) return absl::OkStatus();
    EXPECT_EQ(taken.erase(run->base), 1);
    *run = {};
    if (may_be_shortened) *run = Run(size);
    return may_be_shortened ? absl::OkStatus() : absl::UnavailableError("gone");
  }
  std::optional<ArenaRun> TakeFor(Bytes size, int) override {
    if (!carries) return std::nullopt;
    return Run(size);
  }
  bool GiveBack(absl::Span<const ArenaRun> runs) override {
    if (!may_be_given_back) return false;
    for (const ArenaRun& run : runs) {
      EXPECT_EQ(taken.erase(run.base), 1);
    }
    return true;
  }

  Bytes most{int64_t{1} << 40};
  bool carries = false;
  absl::Status failure;  // of the holes, once they are taken
  bool may_be_given_back = true;
  int64_t least_rest = 4096;  // that a run can be shorter by
  bool may_be_shortened = true;
  std::vector<Bytes> holes;
  std::vector<Bytes> small_holes;
  std::map<char*, Bytes> taken;

 private:
  ArenaRun Run(Bytes size) {
    char* const base = kBase + kApart * next_++;
    taken[base] = size;
    return {.base = base, .size = size};
  }

  int64_t next_ = 0;
};

class NoOrder final : public ArenaOrder {
 public:
  absl::Status NoteEnd(int, absl::Span<const int>) override {
    return absl::OkStatus();
  }
  absl::Status RunBehind(int, int) override { return absl::OkStatus(); }
  absl::Status RunBehindAll(int) override { return absl::OkStatus(); }
};

// A program on an allocator that never has the same address twice.
class StepArenaTest : public testing::Test {
 protected:
  void* Ask(int64_t size) {
    void* block = arena_.Allocate(Bytes{size}, 0);
    if (block == nullptr && arena_.IsLeaving()) {
      block = arena_.AllocateAnywhere(Bytes{size}, 0);
    }
    if (block != nullptr) return block;
    block = reinterpret_cast<void*>(next_ += 4096);
    arena_.OnAllocate(block, Bytes{size}, 0);
    return block;
  }
  void Free(void* block) {
    if (arena_.Owns(block)) {
      EXPECT_TRUE(arena_.Free(block, {}));
    } else {
      arena_.OnFree(block);
    }
  }
  // Two blocks that are alive at once, and one or two that live into the next
  // step, until the second of those comes.
  void Step(int64_t size = 1024, bool is_wanted = true) {
    arena_.BeginStep(is_wanted);
    void* const first = Ask(size);
    FreeKept();
    Free(Ask(2 * size));
    Free(first);
    kept_ = Ask(512);
    if (more_ > Bytes{0}) more_kept_ = Ask(Count(more_));
  }
  void FreeKept() {
    if (kept_ != nullptr) Free(std::exchange(kept_, nullptr));
    if (more_kept_ != nullptr) Free(std::exchange(more_kept_, nullptr));
  }
  void StepUntil(StepArena::State state) {
    for (int i = 0; i < 20 && arena_.facts().state != state; ++i) Step();
    ASSERT_EQ(arena_.facts().state, state) << arena_.facts().reason;
  }

  // By distance from kBase: a char* is not printed.
  std::map<int64_t, Bytes> Taken() const {
    std::map<int64_t, Bytes> taken;
    for (const auto& [base, size] : memory_.taken) taken[base - kBase] = size;
    return taken;
  }

  Memory memory_;
  NoOrder order_;
  StepArena arena_{&memory_, &order_};
  int64_t next_ = int64_t{1} << 30;
  void* kept_ = nullptr;
  Bytes more_{};  // the other one
  void* more_kept_ = nullptr;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_STEP_ARENA_FIXTURE_H_
