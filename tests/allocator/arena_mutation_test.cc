// Steps that do not keep to their plan: requests are dropped, doubled, resized,
// swapped, live longer, or come on another stream or thread. Who has which
// bytes and who runs behind whom is checked by bookkeeping that knows no plan.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "allocator/planned_arena.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);
constexpr int64_t kFallback = 64 << 20;
constexpr int kStreams = 3;
constexpr int kSteps = 4;  // of which the second is mutated

// How far each stream's work is known to be over, by stream: vector clocks.
using Clock = std::vector<int64_t>;

void Join(Clock* clock, const Clock& other) {
  for (int s = 0; s < kStreams; ++s) {
    (*clock)[s] = std::max((*clock)[s], other[s]);
  }
}

// All blocks, one by one, and all earlier uses of their bytes.
class Checker final : public ArenaOrder {
 public:
  void Take(char* begin, int64_t size, int stream) {
    char* const end = begin + size;
    const bool is_inside =
        std::any_of(runs_.begin(), runs_.end(), [&](const ArenaRun& run) {
          return run.base <= begin && end <= run.base + Count(run.size);
        });
    if (!is_inside) problem_ = "a block is not within one run";
    for (const Use& live : live_) {
      if (live.begin < end && begin < live.end) problem_ = "live bytes overlap";
    }
    for (const Use& past : past_) {
      const bool meets = past.begin < end && begin < past.end;
      if (meets && known_[stream][past.stream] < past.until) {
        problem_ = "bytes are used before another stream is done with them";
      }
    }
    live_.push_back({begin, end, stream, 0});
  }

  // `others`: streams that queued work with it, too.
  void Give(const char* begin, absl::Span<const int> others) {
    const auto block =
        std::find_if(live_.begin(), live_.end(),
                     [&](const Use& live) { return live.begin == begin; });
    // The program queued work with it until now.
    block->until = ++known_[block->stream][block->stream];
    past_.push_back(*block);
    for (const int other : others) {
      block->stream = other;
      block->until = ++known_[other][other];
      past_.push_back(*block);
    }
    live_.erase(block);
  }

  absl::Status NoteEnd(int slot, absl::Span<const int> streams) override {
    if (slot >= static_cast<int>(ends_.size())) ends_.resize(slot + 1);
    ends_[slot].assign(kStreams, 0);
    for (const int stream : streams) Join(&ends_[slot], known_[stream]);
    return absl::OkStatus();
  }
  absl::Status RunBehind(int slot, int stream) override {
    if (slot >= static_cast<int>(ends_.size()) || ends_[slot].empty()) {
      problem_ = "an end is waited for that nobody noted";
    } else {
      Join(&known_[stream], ends_[slot]);
    }
    return absl::OkStatus();
  }
  absl::Status RunBehindAll(int stream) override {
    for (int s = 0; s < kStreams; ++s) Join(&known_[stream], known_[s]);
    return absl::OkStatus();
  }

  void AddRun(const ArenaRun& run) { runs_.push_back(run); }
  const std::string& problem() const { return problem_; }

 private:
  struct Use {
    char* begin;
    char* end;
    int stream;
    int64_t until;
  };

  std::vector<Clock> known_ = std::vector<Clock>(kStreams, Clock(kStreams, 0));
  std::vector<ArenaRun> runs_;
  std::vector<Use> live_;
  std::vector<Use> past_;
  std::vector<Clock> ends_;  // by slot
  std::string problem_;
};

struct Buffer {
  int64_t size = 0;
  int stream = 0;
  int64_t offset = 0;
  int until = 0;   // begins of buffers after its own, while it is live
  int other = -1;  // stream that uses it, too
};

// One to four runs, which are no neighbours; the last has all that is behind.
ArenaSpace RandomSpace(std::mt19937* random) {
  ArenaSpace space;
  const int runs = (*random)() % 4;
  for (int i = 0; i < runs; ++i) {
    const int64_t size = 512 * (1 + (*random)() % 9);
    space.Append({.base = kBase - (i + 1) * (64 << 10), .size = Bytes{size}});
  }
  space.Append({.base = kBase, .size = Bytes{int64_t{1} << 40}});
  return space;
}

// Each gets, in the order in which they are asked for, the lowest place that is
// free of the walls and of all that are live with it, in the next step, too.
void Place(const std::vector<int64_t>& walls, std::vector<Buffer>* buffers) {
  for (size_t i = 0; i < buffers->size(); ++i) {
    Buffer& buffer = (*buffers)[i];
    const auto avoid = [&](int64_t begin, int64_t end) {
      const bool meets =
          begin < buffer.offset + buffer.size && buffer.offset < end;
      if (meets) buffer.offset = end;
      return meets;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const int64_t wall : walls) moved |= avoid(wall, wall + 512);
      for (size_t j = 0; j < i; ++j) {
        const Buffer& other = (*buffers)[j];
        const bool is_live = j + other.until >= i;
        const bool meets_next = i + buffer.until >= buffers->size() + j;
        if (!is_live && !meets_next) continue;
        const int64_t end = other.offset + other.size;
        moved |= avoid(other.offset, (end + 511) / 512 * 512);
      }
    }
  }
}

// A step: its buffers in the order in which they are asked for.
std::vector<Buffer> RandomStep(const ArenaSpace& space, std::mt19937* random) {
  std::vector<Buffer> buffers(4 + (*random)() % 24);
  const bool one_stream = (*random)() % 3 == 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    // Few sizes, so that requests are mistaken for others.
    buffer.size = 512 * (1 + (*random)() % 5) - (*random)() % 2;
    buffer.stream = one_stream ? 0 : (*random)() % kStreams;
    buffer.until = (*random)() % std::min<size_t>(8, buffers.size());
    if ((*random)() % 8 == 0) buffer.other = (*random)() % kStreams;
  }
  Place(space.Walls(), &buffers);
  return buffers;
}

ArenaPlan PlanFor(const std::vector<Buffer>& buffers) {
  std::vector<PlannedPhase> phases(2);
  for (size_t i = 0; i < buffers.size(); ++i) {
    phases[2 * i / buffers.size()].push_back({.size = Bytes{buffers[i].size},
                                              .stream = buffers[i].stream,
                                              .offset = buffers[i].offset});
  }
  return *ArenaPlan::Make(phases);
}

constexpr int kMutations = 8;

// Drops, doubles, resizes, swaps, prolongs within and beyond the step, moves to
// another stream; the last changes nothing.
void Mutate(int how, std::vector<Buffer>* buffers, std::mt19937* random) {
  const size_t at = (*random)() % buffers->size();
  Buffer& buffer = (*buffers)[at];
  switch (how) {
    case 0:
      buffers->erase(buffers->begin() + at);
      break;
    case 1:
      buffers->insert(buffers->begin() + at, Buffer(buffer));
      break;
    case 2:
      buffer.size = 512 * (1 + (*random)() % 6);
      break;
    case 3:
      std::swap(buffer, (*buffers)[(at + 1) % buffers->size()]);
      break;
    case 4:
      buffer.until += 1 + (*random)() % 8;
      break;
    case 5:
      buffer.until += buffers->size() + (*random)() % 30;
      break;
    case 6:
      buffer.stream = (buffer.stream + 1) % kStreams;
      break;
    default:
      break;
  }
}

// Runs steps on an arena; a block may live into later ones.
class Program {
 public:
  Program(PlannedArena* arena, Checker* checker)
      : arena_(*arena), checker_(*checker) {}

  void Run(const std::vector<Buffer>& buffers, std::mt19937* threads) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (i == 0) arena_.BeginPhase(0);
      if (2 * i >= buffers.size() && 2 * i < buffers.size() + 2) {
        arena_.BeginPhase(1);
      }
      const auto ask = [&] { Ask(buffers[i]); };
      if (threads != nullptr && (*threads)() % 4 == 0) {
        std::thread(ask).join();
      } else {
        ask();
      }
      FreeWhatIsDue();
    }
  }

  int64_t most_live() const { return most_live_; }

 private:
  struct Block {
    char* begin;
    int64_t size;
    int left;
    int other;
  };

  void Ask(const Buffer& buffer) {
    const Bytes size{buffer.size};
    auto* begin = static_cast<char*>(arena_.Allocate(size, buffer.stream));
    if (begin == nullptr) {
      begin = static_cast<char*>(arena_.AllocateAnywhere(size, buffer.stream));
    }
    if (begin == nullptr) return;  // the program goes elsewhere
    checker_.Take(begin, buffer.size, buffer.stream);
    blocks_.push_back({begin, buffer.size, buffer.until, buffer.other});
    int64_t live = 0;
    for (const Block& block : blocks_) live += (block.size + 511) / 512 * 512;
    most_live_ = std::max(most_live_, live);
  }

  void FreeWhatIsDue() {
    std::erase_if(blocks_, [&](Block& block) {
      if (block.left-- > 0) return false;
      std::vector<int> others;
      if (block.other >= 0) others.push_back(block.other);
      checker_.Give(block.begin, others);
      EXPECT_TRUE(arena_.Free(block.begin, others));
      return true;
    });
  }

  PlannedArena& arena_;
  Checker& checker_;
  std::vector<Block> blocks_;
  int64_t most_live_ = 0;
};

void Replay(int seed) {
  std::mt19937 random(seed);
  const ArenaSpace space = RandomSpace(&random);
  const std::vector<Buffer> step = RandomStep(space, &random);
  const int how = seed % kMutations;
  Checker checker;
  for (const ArenaRun& run : space.runs()) checker.AddRun(run);
  // Without a fallback there are strays.
  const Bytes fallback{seed / kMutations % 2 == 0 ? kFallback : 0};
  PlannedArena arena(PlanFor(step), space, fallback, &checker);
  Program program(&arena, &checker);
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Buffer> now = step;
    if (i == 1) Mutate(how, &now, &random);
    program.Run(now, how == kMutations - 1 && i == 1 ? &random : nullptr);
    ASSERT_EQ(checker.problem(), "") << "step " << i;
  }
  const ArenaCounts counts = arena.counts();
  // No more than what is live can be elsewhere.
  EXPECT_LE(counts.fallback_peak, program.most_live());
  if (fallback > Bytes{0}) {
    EXPECT_EQ(counts.refused, 0);
  }
}

TEST(ArenaMutationTest, NoLiveBytesOverlapAndEveryReuseIsOrdered) {
  const int count = std::getenv("EBBTIDE_LONG") != nullptr ? 1'000'000 : 10'000;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Replay(seed);
  }
}

TEST(ArenaMutationTest, AStepThatKeepsToThePlanIsServedFromIt) {
  for (int seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const ArenaSpace space = RandomSpace(&random);
    const std::vector<Buffer> step = RandomStep(space, &random);
    Checker checker;
    for (const ArenaRun& run : space.runs()) checker.AddRun(run);
    PlannedArena arena(PlanFor(step), space, Bytes{0}, &checker);
    Program program(&arena, &checker);
    for (int i = 0; i < kSteps; ++i) program.Run(step, nullptr);
    ASSERT_EQ(checker.problem(), "") << seed;
    EXPECT_EQ(arena.counts().planned, kSteps * static_cast<int>(step.size()));
  }
}

}  // namespace
}  // namespace ebbtide
