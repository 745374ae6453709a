// Blocks in a trace: what the records of their lives add up to.
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "profiler/trace.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

std::string Path() {
  return testing::TempDir() + "/" +
         testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".ebbtide";
}

// Allocates, retags and frees at random, with books of its own: what was alive
// after each event that is in the file.
class RandomBlocks {
 public:
  RandomBlocks(TraceWriter& writer, int seed) : writer_(writer), rng_(seed) {}

  // A step of the run begins. Nothing happens at that time.
  void BeginStep(int64_t index) { writer_.BeginStep(index, ++time_); }
  void Step() {
    ++time_;
    rest_ += Bytes{static_cast<int64_t>(rng_() % 100)};
    const size_t at = rng_() % 50;
    if (at >= alive_.size()) {
      Block block = {.bytes = Bytes{static_cast<int64_t>(rng_() % 10000)},
                     .kind = static_cast<Kind>(rng_() % kKinds)};
      block.number = writer_.Allocate(time_, block.bytes, block.kind, -1,
                                      Live() + block.bytes);
      alive_.push_back(block);
    } else if (rng_() % 3 == 0) {
      alive_[at].kind = static_cast<Kind>(rng_() % kKinds);
      if (alive_[at].number < 0) return;
      writer_.Retag(time_, alive_[at].number, alive_[at].kind, Live());
    } else {
      const Block freed = alive_[at];
      alive_.erase(alive_.begin() + at);
      if (freed.number < 0) return;
      writer_.Free(time_, freed.number, freed.bytes, Live());
    }
    live_at[time_] = ByKind();
  }

  std::map<int64_t, BytesByKind> live_at;

 private:
  struct Block {
    Bytes bytes{};
    Kind kind = Kind::kOther;
    int64_t number = kNoBlock;
  };

  Bytes Live() const {
    Bytes sum = rest_;
    for (const Block& block : alive_) sum += block.bytes;
    return sum;
  }
  // A block without a number is part of the rest.
  BytesByKind ByKind() const {
    BytesByKind live{};
    live[0] = rest_;
    for (const Block& block : alive_) {
      live[block.number < 0 ? 0 : static_cast<int>(block.kind)] += block.bytes;
    }
    return live;
  }

  TraceWriter& writer_;
  std::mt19937 rng_;
  int64_t time_ = 0;
  Bytes rest_{};
  std::vector<Block> alive_;
};

TEST(TraceBlocksTest, KindsAddUpToWhatIsAliveAtEveryEvent) {
  const auto writer = *TraceWriter::Open(Path());
  RandomBlocks blocks(*writer, 7);
  for (int i = 0; i < 20'000; ++i) blocks.Step();
  ASSERT_TRUE(writer->Close().ok());
  const Trace trace = *ReadTrace(Path());
  ASSERT_EQ(trace.curve.size(), blocks.live_at.size());
  for (const CurveSample& sample : trace.curve) {
    ASSERT_EQ(sample.live, blocks.live_at.at(sample.time)) << sample.time;
  }
}

// A block's end must not be lost with its record, and the sum stays exact.
TEST(TraceBlocksTest, ABufferWithoutRoomLeavesNoBlockAliveForEver) {
  const auto writer = *TraceWriter::Open(Path(), {.buffer = Bytes{8 << 10}});
  RandomBlocks blocks(*writer, 8);
  // Without a pause the background thread has no turn on a small machine.
  for (int i = 0; i < 200'000; ++i) {
    blocks.Step();
    if (i % 20'000 == 0) usleep(20'000);
  }
  usleep(300'000);
  blocks.Step();
  ASSERT_TRUE(writer->Close().ok());
  const Trace trace = *ReadTrace(Path());
  EXPECT_GT(trace.dropped, 1000);
  const auto total = [](const BytesByKind& live) {
    Bytes sum{};
    for (const Bytes each : live) sum += each;
    return sum;
  };
  EXPECT_EQ(total(trace.curve.back().live),
            total(blocks.live_at.rbegin()->second));
  int64_t alive = 0;
  for (const BlockEvent& event : trace.blocks) {
    alive += event.what == BlockEvent::What::kAllocate;
    alive -= event.what == BlockEvent::What::kFree;
  }
  EXPECT_LE(alive, 50);
}

// Blocks that came and went, or changed their kind, in steps that are not in
// the file.
TEST(TraceBlocksTest, KindsAddUpBehindStepsThatWereLeftOut) {
  const auto writer =
      *TraceWriter::Open(Path(), {.max_size = Bytes{256 << 10}});
  RandomBlocks blocks(*writer, 9);
  constexpr int kSteps = 300;
  for (int i = 0; i < kSteps; ++i) {
    blocks.BeginStep(i);
    for (int k = 0; k < 100; ++k) blocks.Step();
  }
  ASSERT_TRUE(writer->Close().ok());
  const Trace trace = *ReadTrace(Path());
  ASSERT_EQ(trace.damage, "");
  EXPECT_EQ(trace.dropped, 0);
  EXPECT_GT(trace.gaps.size(), 10);
  int64_t exact = 0;
  for (const CurveSample& sample : trace.curve) {
    for (const Bytes each : sample.live) ASSERT_GE(each, Bytes{0});
    const auto known = blocks.live_at.find(sample.time);
    // Records behind a gap have the time of the step that begins there.
    if (known == blocks.live_at.end()) continue;
    ASSERT_EQ(sample.live, known->second) << sample.time;
    ++exact;
  }
  EXPECT_GT(exact, 5000);
  EXPECT_EQ(trace.curve.back().live, blocks.live_at.rbegin()->second);
}

}  // namespace
}  // namespace ebbtide
