#include "allocator/pinned_slab.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;

// The system, counted, and failing when asked to.
std::atomic<int> reserved = 0;
std::atomic<int> commits = 0;
std::atomic<int> commits_left = 1 << 30;
std::atomic<int> preferred_node = -1;

const SlabSystem kCounted = {
    .reserve =
        [](size_t size) {
          ++reserved;
          return SlabSystem::Real().reserve(size);
        },
    .prefer_node = [](char*, size_t, int node) { preferred_node = node; },
    .commit =
        [](char* address, size_t size) {
          ++commits;
          return commits_left-- > 0 && SlabSystem::Real().commit(address, size);
        },
    .decommit =
        [](char* address, size_t size) {
          --commits;
          SlabSystem::Real().decommit(address, size);
        },
    .release =
        [](char* address, size_t size) {
          --reserved;
          SlabSystem::Real().release(address, size);
        },
};

class PinnedSlabTest : public testing::Test {
 protected:
  void SetUp() override {
    reserved = 0;
    commits = 0;
    commits_left = 1 << 30;
    preferred_node = -1;
  }
  void TearDown() override { EXPECT_EQ(reserved, 0); }

  // 1 MiB in chunks of 64 KiB, nothing made ahead of need.
  static SlabOptions Options() {
    return {.limit = MiB(1), .ahead = Bytes{0}, .chunk = KiB(64)};
  }
  std::unique_ptr<PinnedSlab> MustOpen(const SlabOptions& options) {
    auto slab = PinnedSlab::Open(cuda_.api(), options, kCounted);
    EXPECT_TRUE(slab.ok()) << slab.status();
    return *std::move(slab);
  }
  // True where all of it is registered with the driver.
  bool IsPinned(const PinnedSlab& slab, Extent extent) const {
    const char* at = slab.At(extent.offset);
    const char* const end = at + Count(extent.size);
    for (const auto& [begin, size] : cuda_.registered) {
      if (begin <= at && at < begin + size) at = begin + size;
    }
    return at >= end;
  }

  FakeCuda cuda_;
};

TEST_F(PinnedSlabTest, SizesAreExactToTheGrain) {
  const auto slab = MustOpen(Options());
  const Extent a = *slab->Take(Bytes{100'000});
  EXPECT_EQ(a.size, Bytes{100'352});  // 196 × 512
  EXPECT_EQ(slab->Stats().used, a.size);
  const Extent b = *slab->Take(Bytes{1});
  EXPECT_EQ(b.size, Bytes{512});
  EXPECT_EQ(b.offset, 100'352);
  std::memset(slab->At(a.offset), 1, 100'000);
  std::memset(slab->At(b.offset), 2, 512);
  EXPECT_EQ(slab->At(a.offset)[99'999], 1);
  slab->Give(a);
  EXPECT_EQ(slab->Stats().used, Bytes{512});
}

TEST_F(PinnedSlabTest, ChunksAreRegisteredAsTheyAreNeeded) {
  const auto slab = MustOpen(Options());
  EXPECT_TRUE(cuda_.registered.empty());
  const Extent first = *slab->Take(KiB(96));
  EXPECT_EQ(cuda_.registered.size(), 2u);
  EXPECT_EQ(slab->Stats().pinned, KiB(128));
  EXPECT_TRUE(IsPinned(*slab, first));
  ASSERT_TRUE(slab->Take(KiB(32)).ok());
  EXPECT_EQ(cuda_.registered.size(), 2u);
  slab->Give(first);
  ASSERT_TRUE(slab->Take(KiB(96)).ok());
  EXPECT_EQ(cuda_.registered.size(), 2u);
  EXPECT_EQ(slab->Stats().pageable, Bytes{0});
}

TEST_F(PinnedSlabTest, NeighboursGivenBackAreOneExtentAgain) {
  const auto slab = MustOpen(Options());
  std::vector<Extent> extents;
  for (int i = 0; i < 16; ++i) extents.push_back(*slab->Take(KiB(64)));
  EXPECT_FALSE(slab->Take(Bytes{1}).ok());
  for (int i = 0; i < 16; i += 2) slab->Give(extents[i]);
  EXPECT_FALSE(slab->Take(KiB(65)).ok());
  for (int i = 1; i < 16; i += 2) slab->Give(extents[i]);
  EXPECT_TRUE(slab->Take(MiB(1)).ok());
}

TEST_F(PinnedSlabTest, TheLimitIsKeptAndNamed) {
  SlabOptions options = Options();
  options.limit = KiB(150) + Bytes{100};  // pages: 148 KiB
  const auto slab = MustOpen(options);
  EXPECT_EQ(slab->limit(), KiB(148));
  ASSERT_TRUE(slab->Take(KiB(148)).ok());
  // The last chunk ends where the memory does.
  EXPECT_EQ(slab->Stats().pinned, KiB(148));
  const auto refused = slab->Take(Bytes{1});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("151552 of its limit of 151552"));
  options.limit = Bytes{4095};
  EXPECT_EQ(PinnedSlab::Open(cuda_.api(), options, kCounted).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PinnedSlabTest, AThreadRegistersAheadOfNeed) {
  SlabOptions options = Options();
  options.ahead = KiB(128);
  const auto slab = MustOpen(options);
  const auto wait_for = [&](Bytes pinned) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(9);
    while (slab->Stats().pinned != pinned &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(slab->Stats().pinned, pinned);
  };
  wait_for(KiB(128));
  ASSERT_TRUE(slab->Take(KiB(64)).ok());
  wait_for(KiB(192));
  ASSERT_TRUE(slab->Take(KiB(900)).ok());
  wait_for(MiB(1));  // no further than the limit
}

TEST_F(PinnedSlabTest, PrepareHasTheThreadRegisterWhatWillBeTaken) {
  const auto slab = MustOpen(Options());
  EXPECT_TRUE(slab->Prepare(Bytes{0}));
  while (!slab->Prepare(KiB(200))) std::this_thread::yield();
  EXPECT_EQ(slab->Stats().pinned, KiB(256));
  EXPECT_EQ(slab->Stats().used, Bytes{0});
  while (!slab->Prepare(MiB(9))) std::this_thread::yield();
  EXPECT_EQ(slab->Stats().pinned, slab->limit());
}

TEST_F(PinnedSlabTest, PrepareDoesNotWaitForARefusedThread) {
  commits_left = 2;
  const auto slab = MustOpen(Options());
  while (!slab->Prepare(MiB(1))) std::this_thread::yield();
  EXPECT_EQ(slab->Stats().pinned, KiB(128));
}

TEST_F(PinnedSlabTest, TheThreadDoesNotInsistWhereItIsRefused) {
  SlabOptions options = Options();
  options.ahead = KiB(128);
  cuda_.registrations_left = 0;
  const auto slab = MustOpen(options);
  while (slab->Stats().refusals == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(slab->Stats().refusals, 1);
  EXPECT_EQ(slab->Stats().pageable, Bytes{0});
  EXPECT_EQ(commits, 0);  // unrequested memory went back
}

TEST_F(PinnedSlabTest, TheThreadWorksForItsDeviceOnly) {
  SlabOptions options = Options();
  options.ahead = MiB(1);
  options.device = 1;
  std::atomic<bool> elsewhere = false;
  std::atomic<int> registered = 0;
  const std::thread::id self = std::this_thread::get_id();
  cuda_.captures_elsewhere = true;
  cuda_.on_call = [&] {
    if (std::this_thread::get_id() == self) return;
    // Its first calls find out; from the first registration on it is there.
    if (registered++ > 2 && FakeCuda::current_device() != 1) elsewhere = true;
  };
  const auto slab = MustOpen(options);
  while (slab->Stats().pinned != MiB(1)) std::this_thread::yield();
  EXPECT_FALSE(elsewhere);
}

// Stops the slab's thread on its way to register the first chunk.
class StoppedThread {
 public:
  explicit StoppedThread(FakeCuda* cuda) : self_(std::this_thread::get_id()) {
    cuda->on_call = [this] {
      // Its first call names the device; the second is for the chunk.
      if (std::this_thread::get_id() == self_ || ++calls_ != 2) return;
      begun_.set_value();
      go_on_.get_future().wait();
    };
  }
  void WaitForBegin() { begun_.get_future().wait(); }
  void GoOn() { go_on_.set_value(); }

 private:
  const std::thread::id self_;
  std::atomic<int> calls_ = 0;
  std::promise<void> begun_;
  std::promise<void> go_on_;
};

template <typename Result>
bool IsWaiting(const std::future<Result>& result) {
  return result.wait_for(std::chrono::milliseconds(50)) ==
         std::future_status::timeout;
}

TEST_F(PinnedSlabTest, WhoNeedsAChunkInWorkWaitsForIt) {
  SlabOptions options = Options();
  options.ahead = KiB(64);
  StoppedThread thread(&cuda_);
  const auto slab = MustOpen(options);
  thread.WaitForBegin();
  auto taken =
      std::async(std::launch::async, [&] { return slab->Take(KiB(1)); });
  EXPECT_TRUE(IsWaiting(taken));
  thread.GoOn();
  const auto extent = taken.get();
  ASSERT_TRUE(extent.ok());
  EXPECT_TRUE(IsPinned(*slab, *extent));
}

TEST_F(PinnedSlabTest, TheEndWaitsForTheThread) {
  SlabOptions options = Options();
  options.ahead = KiB(128);
  StoppedThread thread(&cuda_);
  auto slab = MustOpen(options);
  thread.WaitForBegin();
  auto ended = std::async(std::launch::async, [&] { slab.reset(); });
  EXPECT_TRUE(IsWaiting(ended));
  thread.GoOn();
  ended.wait();
  EXPECT_TRUE(cuda_.registered.empty());
}

TEST_F(PinnedSlabTest, MemoryThatCannotBePinnedServesAndIsToldOnce) {
  cuda_.registrations_left = 1;
  const auto slab = MustOpen(Options());
  EXPECT_TRUE(slab->TakeRefusal().ok());
  const Extent first = *slab->Take(KiB(64));
  const Extent second = *slab->Take(KiB(96));
  EXPECT_TRUE(IsPinned(*slab, first));
  EXPECT_FALSE(IsPinned(*slab, second));
  std::memset(slab->At(second.offset), 7, 96 << 10);
  EXPECT_EQ(slab->Stats().pinned, KiB(64));
  EXPECT_EQ(slab->Stats().pageable, KiB(128));
  EXPECT_EQ(slab->Stats().refusals, 2);
  const absl::Status told = slab->TakeRefusal();
  EXPECT_EQ(told.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(told.message()), HasSubstr("cudaHostRegister"));
  EXPECT_TRUE(slab->TakeRefusal().ok());
  EXPECT_EQ(FakeCuda::last_error(), cudaSuccess);
}

TEST_F(PinnedSlabTest, WithoutMemoryATakeFailsAndTakesNothing) {
  commits_left = 1;
  const auto slab = MustOpen(Options());
  const auto refused = slab->Take(KiB(128));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("no memory for 65536 bytes"));
  EXPECT_EQ(slab->Stats().used, Bytes{0});
  EXPECT_EQ(slab->Stats().refusals, 0);
  commits_left = 100;
  EXPECT_TRUE(slab->Take(KiB(128)).ok());
}

TEST_F(PinnedSlabTest, WithoutAddressSpaceThereIsNoSlab) {
  SlabSystem none = kCounted;
  none.reserve = [](size_t) -> char* { return nullptr; };
  EXPECT_EQ(PinnedSlab::Open(cuda_.api(), Options(), none).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(PinnedSlabTest, TheNodeIsAskedForBeforeAnyMemory) {
  SlabOptions options = Options();
  EXPECT_EQ((MustOpen(options), preferred_node), -1);
  options.node = 2;
  const auto slab = MustOpen(options);
  EXPECT_EQ(preferred_node, 2);
  EXPECT_EQ(commits, 0);
}

TEST_F(PinnedSlabTest, WhatTheDriverWillNotUnregisterStaysMapped) {
  auto slab = MustOpen(Options());
  char* const memory = slab->At(slab->Take(KiB(64))->offset);
  cuda_.on_call = [this] { cuda_.FailCall(cuda_.calls(), cudaErrorUnknown); };
  slab.reset();
  cuda_.on_call = nullptr;
  EXPECT_TRUE(Resident(memory));
  EXPECT_EQ(reserved, 1);
  cuda_.registered.clear();
  kCounted.release(memory, 1 << 20);
}

TEST_F(PinnedSlabTest, AChildOfForkHasNoneOfItAndDoesNoHarm) {
  auto slab = MustOpen(Options());
  char* const memory = slab->At(slab->Take(KiB(64))->offset);
  *memory = 42;
  const pid_t child = fork();
  if (child == 0) {
    const bool gone = msync(memory, 4096, MS_ASYNC) != 0 && errno == ENOMEM;
    const int64_t calls = cuda_.calls();
    slab.reset();
    _exit(gone && cuda_.calls() == calls && reserved == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*memory, 42);
}

TEST_F(PinnedSlabTest, ThreadsTakeAndGiveAtOnce) {
  SlabOptions options = Options();
  options.ahead = KiB(256);
  const auto slab = MustOpen(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&slab, t] {
      for (int i = 1; i <= 200; ++i) {
        const auto extent = slab->Take(Bytes{(i * 977 + t) % 90'000 + 1});
        if (!extent.ok()) continue;
        char* const at = slab->At(extent->offset);
        std::memset(at, t * 50 + i % 50, Count(extent->size));
        std::this_thread::yield();
        for (int64_t b = 0; b < Count(extent->size); b += 511) {
          if (at[b] != static_cast<char>(t * 50 + i % 50)) {
            ADD_FAILURE() << "two threads have the same byte";
            break;
          }
        }
        slab->Give(*extent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(slab->Stats().used, Bytes{0});
}

// The k-th call of CUDA fails, for all k.
TEST_F(PinnedSlabTest, AFaultAnywhereLosesNothing) {
  for (int64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    cuda_.FailCall(cuda_.calls() + k, cudaErrorMemoryAllocation);
    const int64_t end = cuda_.calls() + k;
    auto slab = MustOpen(Options());
    int taken = 0;
    for (int i = 0; i < 4; ++i) {
      const auto extent = slab->Take(KiB(60));
      ASSERT_TRUE(extent.ok()) << extent.status();
      std::memset(slab->At(extent->offset), i, 60 << 10);
      ++taken;
    }
    const SlabStats stats = slab->Stats();
    EXPECT_EQ(stats.pinned + stats.pageable, KiB(256));
    EXPECT_EQ(stats.pageable, Count(stats.pageable) == 0 ? Bytes{0} : KiB(64));
    EXPECT_EQ(stats.used, KiB(240));
    char* const base = slab->At(0);
    slab.reset();
    EXPECT_TRUE(cuda_.registered.empty());
    if (reserved > 0) kCounted.release(base, 1 << 20);
    if (cuda_.calls() <= end) break;
  }
}

}  // namespace
}  // namespace ebbtide
