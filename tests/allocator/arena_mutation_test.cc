// Steps that do not keep to their plan: requests are dropped, doubled, resized,
// swapped, live longer, or come on another stream or thread, with few pages or
// many. Who has which bytes and who runs behind whom is checked by bookkeeping
// that knows no plan.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_pages.h"

namespace ebbtide {
namespace {

constexpr int kStreams = 3;
constexpr int kSteps = 4;  // of which the second is mutated

struct Buffer {
  int64_t size = 0;
  int stream = 0;
  int64_t offset = 0;
  int until = 0;   // begins of buffers after its own, while it is live
  int other = -1;  // stream that uses it, too
};

// Each gets, in the order in which they are asked for, the lowest place that is
// free of all that are live with it, in the next step, too.
void Place(std::vector<Buffer>* buffers) {
  for (size_t i = 0; i < buffers->size(); ++i) {
    Buffer& buffer = (*buffers)[i];
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const Buffer& other = (*buffers)[j];
        const bool is_live = j + other.until >= i;
        const bool meets_next = i + buffer.until >= buffers->size() + j;
        if (!is_live && !meets_next) continue;
        const int64_t end = (other.offset + other.size + 511) / 512 * 512;
        if (other.offset < buffer.offset + buffer.size && buffer.offset < end) {
          buffer.offset = end;
          moved = true;
        }
      }
    }
  }
}

// A step: its buffers in the order in which they are asked for.
std::vector<Buffer> RandomStep(std::mt19937* random) {
  std::vector<Buffer> buffers(4 + (*random)() % 24);
  const bool one_stream = (*random)() % 3 == 0;
  const int64_t grain = (*random)() % 2 == 0 ? 512 : 2560;
  for (Buffer& buffer : buffers) {
    // Few sizes, so that requests are mistaken for others.
    buffer.size = grain * (1 + (*random)() % 5) - (*random)() % 2;
    buffer.stream = one_stream ? 0 : (*random)() % kStreams;
    buffer.until = (*random)() % std::min<size_t>(8, buffers.size());
    if ((*random)() % 8 == 0) buffer.other = (*random)() % (kStreams + 1);
  }
  Place(&buffers);
  return buffers;
}

ArenaPlan PlanFor(const std::vector<Buffer>& buffers) {
  PlannedPhase phase;
  for (const Buffer& buffer : buffers) {
    phase.push_back({.size = Bytes{buffer.size},
                     .stream = buffer.stream,
                     .offset = buffer.offset});
  }
  return *ArenaPlan::Make({phase});
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
      buffer.size = 512 * (1 + (*random)() % 26);
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
  Program(PageArena* arena, FakePages* pages)
      : arena_(*arena), pages_(*pages) {}

  void Run(const std::vector<Buffer>& buffers, std::mt19937* threads) {
    arena_.BeginStep();
    for (const Buffer& buffer : buffers) {
      const auto ask = [&] { Ask(buffer); };
      if (threads != nullptr && (*threads)() % 4 == 0) {
        std::thread(ask).join();
      } else {
        ask();
      }
      FreeWhatIsDue();
    }
  }

  int64_t refused() const { return refused_; }

 private:
  struct Block {
    void* begin;
    int left;
    int other;
  };

  void Ask(const Buffer& buffer) {
    const Bytes size{buffer.size};
    const auto by = static_cast<PageArena::By>(buffer.until % 3);
    void* begin = arena_.Allocate(size, buffer.stream, /*verdict=*/nullptr, by);
    if (begin == nullptr) {
      begin = arena_.AllocateAnywhere(size, buffer.stream, by);
    }
    if (begin == nullptr) {
      ++refused_;
      return;
    }
    pages_.Take(begin, buffer.size, buffer.stream);
    blocks_.push_back({begin, buffer.until, buffer.other});
  }

  void FreeWhatIsDue() {
    std::erase_if(blocks_, [&](Block& block) {
      if (block.left-- > 0) return false;
      std::vector<int> others;
      std::vector<StreamMark> ends;
      if (block.other >= kStreams) {
        ends.push_back(pages_.Copy(block.begin));
      } else if (block.other >= 0) {
        others.push_back(block.other);
      }
      pages_.Give(block.begin, others);
      EXPECT_TRUE(arena_.Free(block.begin, others, ends));
      return true;
    });
  }

  PageArena& arena_;
  FakePages& pages_;
  std::vector<Block> blocks_;
  int64_t refused_ = 0;
};

void Replay(int seed) {
  std::mt19937 random(seed);
  const std::vector<Buffer> step = RandomStep(&random);
  const int how = seed % kMutations;
  const bool has_few_pages = seed / kMutations % 2 == 1;
  FakePages pages(kStreams);
  if (has_few_pages) pages.limit = 2 + random() % 16;
  PageArena arena(&pages, &pages, Bytes{kFakePage / 2});
  ASSERT_TRUE(arena.Reserve(Bytes{1 << 24}).ok());
  ASSERT_TRUE(arena.BeginPlan(PlanFor(step)));
  Program program(&arena, &pages);
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Buffer> now = step;
    if (i == 1) Mutate(how, &now, &random);
    program.Run(now, how == kMutations - 1 && i == 1 ? &random : nullptr);
    ASSERT_EQ(pages.problem(), "") << "step " << i;
    if (i == 2 && seed % 3 == 0) arena.EndPlan();
  }
  EXPECT_TRUE(arena.Check());
  if (!has_few_pages) {
    EXPECT_EQ(program.refused(), 0);
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
    const std::vector<Buffer> step = RandomStep(&random);
    FakePages pages(kStreams);
    PageArena arena(&pages, &pages, Bytes{kFakePage / 2});
    ASSERT_TRUE(arena.Reserve(Bytes{1 << 24}).ok());
    ASSERT_TRUE(arena.BeginPlan(PlanFor(step)));
    Program program(&arena, &pages);
    for (int i = 0; i < kSteps; ++i) program.Run(step, nullptr);
    ASSERT_EQ(pages.problem(), "") << seed;
    EXPECT_EQ(arena.facts().counts.planned,
              kSteps * static_cast<int>(step.size()));
    EXPECT_EQ(arena.facts().moves, 0);
  }
}

}  // namespace
}  // namespace ebbtide
