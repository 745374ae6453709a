// Steps that do not keep to what was recorded: requests are dropped, doubled,
// resized, swapped, live longer, or come on another stream or thread. A program
// runs them on an arena above FakePages, which check it by bookkeeping of their
// own.
#ifndef EBBTIDE_TESTS_ALLOCATOR_MUTATED_STEPS_H_
#define EBBTIDE_TESTS_ALLOCATOR_MUTATED_STEPS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "allocator/arena/step_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_pages.h"

namespace ebbtide {

inline constexpr int kMutatedStreams = 4;

struct Buffer {
  int64_t size = 0;
  int stream = 0;
  int64_t offset = 0;
  int until = 0;   // begins of buffers after its own, while it is live
  int other = -1;  // stream that uses it, too; kMutatedStreams: a copy does
};

// A step: its buffers in the order in which they are asked for.
inline std::vector<Buffer> RandomStep(std::mt19937* random) {
  std::vector<Buffer> buffers(4 + (*random)() % 24);
  const bool one_stream = (*random)() % 3 == 0;
  const int64_t grain = (*random)() % 2 == 0 ? 512 : 2560;
  for (Buffer& buffer : buffers) {
    // Few sizes, so that requests are mistaken for others.
    buffer.size = grain * (1 + (*random)() % 5) - (*random)() % 2;
    buffer.stream = one_stream ? 0 : (*random)() % kMutatedStreams;
    buffer.until = (*random)() % std::min<size_t>(8, buffers.size());
    if ((*random)() % 8 == 0) {
      buffer.other = (*random)() % (kMutatedStreams + 1);
    }
  }
  return buffers;
}

inline constexpr int kMutations = 8;

// Drops, doubles, resizes, swaps, prolongs within and beyond the step, moves to
// another stream; the last changes nothing.
inline void Mutate(int how, std::vector<Buffer>* buffers,
                   std::mt19937* random) {
  if (buffers->empty()) return;
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
      buffer.stream = (buffer.stream + 1) % kMutatedStreams;
      break;
    default:
      break;
  }
}

inline void* Ask(PageArena* arena, Bytes size, int stream, PageArena::By by) {
  void* const block = arena->Allocate(size, stream, /*verdict=*/nullptr, by);
  if (block != nullptr) return block;
  return arena->AllocateAnywhere(size, stream, by);
}
inline void* Ask(StepArena* arena, Bytes size, int stream, PageArena::By by) {
  void* const block = arena->Allocate(size, stream, /*is_last=*/false, by);
  if (block != nullptr) return block;
  return arena->Allocate(size, stream, /*is_last=*/true, by);
}

// Runs the requests of steps on an arena; a block may live into later ones.
template <typename Arena>
class MutatedProgram {
 public:
  MutatedProgram(Arena* arena, FakePages* pages)
      : arena_(*arena), pages_(*pages) {}

  // Some of the requests come on other threads, if `threads` says so.
  void Run(const std::vector<Buffer>& buffers,
           std::mt19937* threads = nullptr) {
    for (const Buffer& buffer : buffers) {
      const auto ask = [&] { AskFor(buffer); };
      if (threads != nullptr && (*threads)() % 4 == 0) {
        std::thread(ask).join();
      } else {
        ask();
      }
      FreeIf([](Block& block) { return block.left-- <= 0; });
    }
  }
  void FreeAll() {
    FreeIf([](Block&) { return true; });
  }

  int64_t refused() const { return refused_; }

 private:
  struct Block {
    void* begin;
    int left;
    int other;
  };

  void AskFor(const Buffer& buffer) {
    const auto by = static_cast<PageArena::By>(buffer.until % 3);
    void* const begin = Ask(&arena_, Bytes{buffer.size}, buffer.stream, by);
    if (begin == nullptr) {
      ++refused_;
      return;
    }
    pages_.Take(begin, buffer.size, buffer.stream);
    blocks_.push_back({begin, buffer.until, buffer.other});
  }

  template <typename IsDue>
  void FreeIf(IsDue is_due) {
    std::erase_if(blocks_, [&](Block& block) {
      if (!is_due(block)) return false;
      std::vector<int> others;
      std::vector<StreamMark> ends;
      if (block.other >= kMutatedStreams) {
        ends.push_back(pages_.Copy(block.begin));
      } else if (block.other >= 0) {
        others.push_back(block.other);
      }
      pages_.Give(block.begin, others);
      EXPECT_TRUE(arena_.Free(block.begin, others, ends));
      return true;
    });
  }

  Arena& arena_;
  FakePages& pages_;
  std::vector<Block> blocks_;
  int64_t refused_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_MUTATED_STEPS_H_
