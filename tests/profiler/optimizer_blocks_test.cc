#include "profiler/optimizer_blocks.h"

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

TEST(OptimizerBlocksTest, StateIsWhatOutlivesAStepAndIsAsLargeAsAParameter) {
  OptimizerBlocks blocks;
  const int memory[5] = {};
  blocks.NoteParameter(Bytes{100});
  // The first parameters, before any step.
  blocks.Add({0, &memory[0]}, Bytes{100});
  EXPECT_TRUE(blocks.BeginStep().empty());
  blocks.Add({1, &memory[1]}, Bytes{100});  // state
  blocks.Add({2, &memory[2]}, Bytes{100});  // optimizer memory that lives for a
                                            // while
  blocks.Add({3, &memory[3]}, Bytes{77});   // a batch that the script keeps
  blocks.Remove(2);
  EXPECT_TRUE(blocks.BeginStep().empty());
  const auto found = blocks.BeginStep();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].number, 1);
  EXPECT_EQ(found[0].address, &memory[1]);
  EXPECT_TRUE(blocks.BeginStep().empty());
}

}  // namespace
}  // namespace ebbtide
