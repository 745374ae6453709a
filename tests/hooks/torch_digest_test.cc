#include "hooks/digest.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ebbtide {
namespace {

constexpr int64_t kPiece = 64;

class SumWordsTest : public testing::Test {
 protected:
  SumWordsTest() {
    const auto numbers = [](int64_t count) {
      return at::zeros({count}, at::kLong);
    };
    scratch_ = {.weights = numbers(kPiece),
                .products = numbers(kPiece),
                .sums = numbers(kPiece)};
    MakeWeights(scratch_);
  }

  int64_t Sum(const at::Tensor& words) const {
    at::Tensor sum = at::zeros({}, at::kLong);
    SumWords(words, scratch_, &sum);
    return sum.item<int64_t>();
  }
  // The definition, word by word.
  uint64_t Expected(const at::Tensor& words) const {
    const auto weight = [this](int64_t i) {
      return static_cast<uint64_t>(scratch_.weights[i].item<int64_t>());
    };
    const int64_t pieces = (words.numel() - 1) / kPiece + 1;
    std::vector<uint64_t> sums(pieces, 0);
    for (int64_t i = 0; i < words.numel(); ++i) {
      const auto word = static_cast<uint64_t>(words[i].item<int64_t>());
      sums[i / kPiece] += word * weight(i % kPiece);
    }
    if (pieces == 1) return sums[0];
    uint64_t all = 0;
    for (int64_t i = 0; i < pieces; ++i) all += sums[i] * weight(i);
    return all;
  }
  static at::Tensor Words(int64_t count) {
    return at::randint(INT32_MIN, INT32_MAX, {count},
                       at::TensorOptions(at::kInt));
  }

  DigestScratch scratch_;
};

TEST_F(SumWordsTest, WeightsAreOddAndDiffer) {
  std::vector<int64_t> weights(kPiece);
  for (int64_t i = 0; i < kPiece; ++i) {
    weights[i] = scratch_.weights[i].item<int64_t>();
    EXPECT_EQ(weights[i] & 1, 1);
  }
  std::sort(weights.begin(), weights.end());
  EXPECT_EQ(std::unique(weights.begin(), weights.end()), weights.end());
}

TEST_F(SumWordsTest, IsTheSumOverPiecesOfWordsTimesWeights) {
  for (const int64_t count : {1, 63, 64, 65, 640, 4096}) {
    const at::Tensor words = Words(count);
    EXPECT_EQ(static_cast<uint64_t>(Sum(words)), Expected(words)) << count;
  }
  const at::Tensor bytes = at::randint(0, 256, {1000}, at::kByte);
  EXPECT_EQ(static_cast<uint64_t>(Sum(bytes)), Expected(bytes));
}

TEST_F(SumWordsTest, EveryByteOfAStorageOfAnySizeCounts) {
  const auto digest = [this](const at::Tensor& bytes) {
    at::Tensor sum = at::zeros({}, at::kLong);
    SumBytes(bytes, scratch_, &sum);
    return sum.item<int64_t>();
  };
  for (const int64_t count : {1, 3, 4, 5, 256, 259, 1023}) {
    const at::Tensor bytes = at::randint(0, 256, {count}, at::kByte);
    const int64_t before = digest(bytes);
    EXPECT_EQ(digest(bytes.clone()), before);
    for (int64_t place = 0; place < count; ++place) {
      at::Tensor changed = bytes.clone();
      changed[place].bitwise_xor_(1 << place % 8);
      EXPECT_NE(digest(changed), before) << count << " " << place;
    }
  }
}

TEST_F(SumWordsTest, AnyBitThatDiffersShows) {
  at::Tensor words = Words(200);
  const int64_t before = Sum(words);
  for (const int64_t place : {0, 63, 64, 199}) {
    for (int bit = 0; bit < 32; ++bit) {
      at::Tensor changed = words.clone();
      changed[place].bitwise_xor_(static_cast<int32_t>(uint32_t{1} << bit));
      EXPECT_NE(Sum(changed), before) << place << " " << bit;
    }
  }
}

// The changes are large and even: signs, order, one number added to all words.
TEST_F(SumWordsTest, ChangesOfAllWordsShow) {
  const at::Tensor words = Words(1024);
  const int64_t before = Sum(words);
  EXPECT_NE(Sum(words.bitwise_xor(INT32_MIN)), before);
  EXPECT_NE(Sum(words.flip(0)), before);
  EXPECT_NE(Sum(words.view({16, 64}).flip(0).reshape({-1})), before);
  EXPECT_NE(Sum(words.view({16, 64}).flip(1).reshape({-1})), before);
  EXPECT_NE(Sum(words.add(1)), before);
  EXPECT_NE(Sum(words.roll(1)), before);
  for (int bit = 0; bit < 32; ++bit) {
    at::Tensor two = words.clone();
    for (const int64_t place : {5, 70}) {
      two[place].bitwise_xor_(static_cast<int32_t>(uint32_t{1} << bit));
    }
    EXPECT_NE(Sum(two), before) << bit;
  }
}

}  // namespace
}  // namespace ebbtide
