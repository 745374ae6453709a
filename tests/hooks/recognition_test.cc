#include "hooks/recognition.h"

#include <memory>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using ::testing::Eq;
using ::testing::Optional;

KnownTape Tape(uint64_t signature, std::vector<uint64_t> hashes) {
  return {signature,
          std::make_shared<const std::vector<uint64_t>>(std::move(hashes))};
}

TEST(RecognitionTest, TapesThatDifferAtOnceAreToldApartAtOnce) {
  Recognition recognition({Tape(1, {11, 12}), Tape(2, {21, 22})});
  EXPECT_THAT(recognition.After(0, 21), Optional(2));
}

TEST(RecognitionTest, TheMostLikelyIsNamedUntilItDiffers) {
  const std::vector<KnownTape> known = {
      Tape(1, {7, 8, 13}), Tape(2, {7, 8, 23}), Tape(3, {7, 38, 33})};
  Recognition recognition(known);
  EXPECT_THAT(recognition.After(0, 7), Optional(1));
  EXPECT_THAT(recognition.After(2, 23), Optional(2));
  EXPECT_THAT(recognition.After(2, 99), Eq(std::nullopt));
}

TEST(RecognitionTest, OneThatHasEndedIsAnotherThanOneThatGoesOn) {
  const std::vector<KnownTape> known = {Tape(1, {7, 8}), Tape(2, {7, 8, 9})};
  Recognition longer(known);
  EXPECT_THAT(longer.After(0, 7), Optional(1));
  EXPECT_THAT(longer.After(2, 9), Optional(2));
  Recognition shorter({known[1], known[0]});
  EXPECT_THAT(shorter.After(1, 8), Optional(2));
  EXPECT_THAT(shorter.Whole(2, 8), Optional(1));
}

TEST(RecognitionTest, NothingFitsAnUnknownTape) {
  Recognition recognition({Tape(1, {7, 8})});
  EXPECT_THAT(recognition.After(0, 9), Eq(std::nullopt));
  EXPECT_THAT(recognition.After(1, 8), Eq(std::nullopt));
  EXPECT_THAT(Recognition().After(0, 7), Eq(std::nullopt));
  EXPECT_THAT(Recognition().Whole(0, 0), Eq(std::nullopt));
}

TEST(RecognitionTest, TheExcludedIsNotNamedAgain) {
  Recognition recognition({Tape(1, {7, 8}), Tape(2, {7, 9})});
  EXPECT_THAT(recognition.After(0, 7), Optional(1));
  recognition.Exclude(1);
  EXPECT_THAT(recognition.After(0, 7), Optional(2));
}

}  // namespace
}  // namespace ebbtide
