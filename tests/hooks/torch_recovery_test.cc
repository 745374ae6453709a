#include "hooks/recovery.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "hooks/cpu_device.h"
#include "hooks/recipe.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

// A tape on which `x` has been cloned, and the clone saved.
struct Cloned {
  explicit Cloned(const at::Tensor& x) {
    input = tape.FindOrAdd(x);
    TapeOp& op = tape.ops.emplace_back();
    op.info = &info;
    op.grad_mode = op.verified = true;
    op.settings = CurrentKernelSettings(/*precision=*/true);
    op.arguments = tape.AddArguments(2);
    op.arguments[0].kind = Argument::Kind::kTensor;
    TensorArgument& read = op.arguments[0].tensors.emplace_back();
    read.storage = input;
    SetGeometry(x, &read.geometry);
    const at::Tensor made = x.clone();
    output = tape.AddProduced(made.storage(), 0);
    op.outputs.push_back(output);
    tape.storages[output].data = made.storage();
    tape.storages[output].hooks = 1;
  }
  ~Cloned() {
    tape.storages[output].hooks = 0;
    Settle(&tape, output);
  }

  const OpInfo info = {.handle = c10::Dispatcher::singleton().findSchemaOrThrow(
                           "aten::clone", ""),
                       .name = "clone"};
  Tape tape;
  int input = -1;
  int output = -1;
};

class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest() { Device::Use(&CpuDevice::Global()); }
};

// While one thread looks for room, another one releases its tensors.
TEST_F(RecoveryTest, AnInputThatGoesOnceARecipeIsFoundIsThereForIt) {
  at::Tensor x = at::arange(int64_t{32} << 10).to(at::kFloat);
  const at::Tensor expected = x.clone();
  Cloned cloned(x);
  std::optional<Recipe> recipe = FindRecipe(cloned.tape, cloned.output);
  ASSERT_TRUE(recipe.has_value());
  x.reset();
  Drop(&cloned.tape, cloned.output);
  recipe.reset();
  ASSERT_FALSE(cloned.tape.storages[cloned.output].data);
  EXPECT_EQ(Recover(&cloned.tape, cloned.output,
                    {.hold = [](int) { return true; },
                     .restore = [](int) { FAIL() << "nothing is spilled"; }}),
            1);
  Geometry geometry;
  SetGeometry(expected, &geometry);
  EXPECT_TRUE(
      at::equal(MakeTensor(cloned.tape.storages[cloned.output].data, geometry),
                expected));
  EXPECT_FALSE(cloned.tape.storages[cloned.input].data);
}

TEST_F(RecoveryTest, AnInputThatWentBeforeLeavesNoRecipe) {
  at::Tensor x = at::ones({int64_t{32} << 10});
  const Cloned cloned(x);
  x.reset();
  EXPECT_FALSE(FindRecipe(cloned.tape, cloned.output).has_value());
  const std::optional<NoRecipe> why = WhyNoRecipe(cloned.tape, cloned.output);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->reason, "reads an input that is gone");
}

}  // namespace
}  // namespace ebbtide
