#include "profiler/cupti_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "profiler/cupti_api.h"
#include "tests/cudasim/cupti_record.h"
#include "tests/profiler/cupti_table.h"

namespace ebbtide {
namespace {

using cudasim::CuptiRecord;
using testing::HasSubstr;

constexpr uint32_t k130 = 130001;
constexpr uint32_t k132 = 130202;

// The simulated walks, one for each version.
template <uint32_t kVersion>
CuptiResult Next(uint8_t* buffer, size_t valid, void** record) {
  return cudasim::NextCuptiRecord(buffer, valid, kVersion, record);
}

// The walk of the CUPTI that is installed, or else the simulated one's.
CuptiNextRecord InstalledNext() {
  const CuptiNextRecord real = RealNextRecord();
  return real != nullptr ? real : &Next<k130>;
}

// A buffer of CUPTI's. Ends where its bytes end, so that a sanitizer sees who
// looks behind them.
class Buffer {
 public:
  Buffer(const std::vector<CuptiRecord>& records, uint32_t version) {
    for (const CuptiRecord& record : records) {
      const size_t size = bytes_.size();
      bytes_.resize(size + cudasim::CuptiSizeOf(record.kind, version));
      WriteCuptiRecord(record, version,
                       reinterpret_cast<std::byte*>(bytes_.data() + size));
    }
    bytes_.shrink_to_fit();
  }
  absl::Span<uint8_t> bytes() { return absl::MakeSpan(bytes_); }
  std::vector<uint8_t> First(size_t size) const {
    return {bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(size)};
  }

 private:
  std::vector<uint8_t> bytes_;
};

const std::vector<CuptiRecord>& OneOfEach() {
  static const auto& records = *new std::vector<CuptiRecord>{
      {.kind = 39, .correlation = 7, .external_kind = 5, .external_id = 1234},
      {.kind = 5,
       .begin = 1,
       .end = 2,
       .correlation = 7,
       .function = 211,
       .thread = 9},
      {.kind = 10,
       .begin = 10,
       .end = 30,
       .device = 1,
       .stream = 3,
       .correlation = 7},
      {.kind = 1,
       .begin = 40,
       .end = 50,
       .device = 2,
       .stream = 4,
       .correlation = 8,
       .bytes = 4096,
       .direction = 2},
      {.kind = 22,
       .begin = 41,
       .end = 52,
       .device = 0,
       .stream = 5,
       .correlation = 9,
       .bytes = 64,
       .direction = 10},
      {.kind = 2,
       .begin = 60,
       .end = 61,
       .device = 3,
       .stream = 6,
       .correlation = 10,
       .bytes = 8},
      {.kind = 4,
       .begin = 3,
       .end = 4,
       .correlation = 11,
       .function = 307,
       .thread = 8},
  };
  return records;
}

const CuptiRecords& OneOfEachRead() {
  static const auto& records = *new CuptiRecords{
      .kernels = {{{10, 30, 1, 3, 7}}},
      .copies = {{{40, 50, 2, 4, 8}, CopyDirection::kToHost, Bytes{4096}},
                 {{41, 52, 0, 5, 9},
                  CopyDirection::kBetweenDevices,
                  Bytes{64}}},
      .sets = {{{60, 61, 3, 6, 10}, Bytes{8}}},
      .externals = {{5, 1234, 7}},
      .calls = {{false, 211, 1, 2, 9, 7}, {true, 307, 3, 4, 8, 11}}};
  return records;
}

TEST(CuptiParseTest, ReadsEveryKindInBothLayouts) {
  CuptiRecords first;
  Buffer old(OneOfEach(), k130);
  ASSERT_TRUE(
      ParseCuptiBuffer(old.bytes(), "buffer 1", kCupti130, &Next<k130>, &first)
          .ok());
  EXPECT_EQ(first, OneOfEachRead());
  CuptiRecords second;
  Buffer young(OneOfEach(), k132);
  ASSERT_TRUE(ParseCuptiBuffer(young.bytes(), "buffer 1", kCupti132,
                               &Next<k132>, &second)
                  .ok());
  EXPECT_EQ(second, OneOfEachRead());
}

TEST(CuptiParseTest, TheInstalledCuptiWalksTheSimulatedBuffers) {
  CuptiRecords records;
  Buffer buffer(OneOfEach(), k130);
  const absl::Status status = ParseCuptiBuffer(
      buffer.bytes(), "buffer 1", kCupti130, InstalledNext(), &records);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(records, OneOfEachRead());
}

TEST(CuptiParseTest, TheInstalledCuptiDisagreesWithTheLayoutOfAnotherVersion) {
  CuptiRecords records;
  const CuptiRecord kernel = OneOfEach()[2];
  Buffer buffer({kernel, kernel}, k132);
  const absl::Status status = ParseCuptiBuffer(
      buffer.bytes(), "buffer 1", kCupti132, InstalledNext(), &records);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("offset 224, record of kind 10: "
                        "cuptiActivityGetNextRecord does not find it there"));
  EXPECT_EQ(records, CuptiRecords{});
}

// Both walks take a record that is cut off for the end of the buffer.
TEST(CuptiParseTest, EveryCutIsAnErrorThatSaysWhere) {
  const Buffer whole({OneOfEach()[0], OneOfEach()[2]}, k130);  // 24, 216 bytes
  for (size_t size = 1; size < 240; ++size) {
    if (size == 24) continue;
    std::vector<uint8_t> cut = whole.First(size);
    cut.shrink_to_fit();
    CuptiRecords records;
    const absl::Status status = ParseCuptiBuffer(
        absl::MakeSpan(cut), "buffer 5", kCupti130, &Next<k130>, &records);
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_EQ(records, CuptiRecords{});
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("buffer 5, offset " +
                                   std::to_string(size < 24 ? 0 : 24)));
    if (size < 4 || (size > 24 && size < 28)) {
      EXPECT_THAT(message, HasSubstr("record of unknown kind: " +
                                     std::to_string(size % 24) + " bytes"));
    }
    if (size >= 28) {
      EXPECT_THAT(message, HasSubstr("record of kind 10: " +
                                     std::to_string(size - 24) + " of 216"));
    }
  }
}

TEST(CuptiParseTest, AWalkThatStopsElsewhereOrFailsIsRefused) {
  const auto elsewhere = [](uint8_t* buffer, size_t, void** record) {
    *record = buffer + 8;
    return kCuptiSuccess;
  };
  const auto fails = [](uint8_t* buffer, size_t, void** record) {
    *record = buffer;
    return CuptiResult{21};
  };
  for (const CuptiNextRecord walk : {+elsewhere, +fails}) {
    Buffer buffer({OneOfEach()[0]}, k130);
    CuptiRecords records;
    const absl::Status status =
        ParseCuptiBuffer(buffer.bytes(), "buffer 1", kCupti130, walk, &records);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("offset 0, record of kind 39: "
                          "cuptiActivityGetNextRecord does not find it there"));
    EXPECT_EQ(records, CuptiRecords{});
  }
}

// It would read behind the buffer there: this crashed before the parser knew.
TEST(CuptiParseTest, TheInstalledCuptiIsNotAskedAtACut) {
  const Buffer whole({OneOfEach()[0], OneOfEach()[2]}, k130);
  for (size_t size = 1; size < 240; ++size) {
    if (size == 24) continue;
    std::vector<uint8_t> cut = whole.First(size);
    CuptiRecords records;
    EXPECT_FALSE(ParseCuptiBuffer(absl::MakeSpan(cut), "buffer 5", kCupti130,
                                  InstalledNext(), &records)
                     .ok());
  }
}

TEST(CuptiParseTest, KindsThatNobodyAskedForAreRefused) {
  for (const uint32_t kind : {0, 3, 17, 51, 55, 1000}) {
    Buffer buffer({OneOfEach()[0], OneOfEach()[0]}, k130);
    memcpy(buffer.bytes().data() + 24, &kind, sizeof kind);
    CuptiRecords records;
    const absl::Status status = ParseCuptiBuffer(
        buffer.bytes(), "buffer 2", kCupti130, &Next<k130>, &records);
    EXPECT_EQ(status.message(), "CUPTI buffer 2, offset 24, record of kind " +
                                    std::to_string(kind) +
                                    ": nobody here has asked for it");
    EXPECT_EQ(records, CuptiRecords{});
  }
}

TEST(CuptiParseTest, TimesBeyondSixtyThreeBitsAreRefused) {
  CuptiRecord kernel = OneOfEach()[2];
  kernel.end = uint64_t{1} << 63;
  Buffer buffer({kernel}, k130);
  CuptiRecords records;
  const absl::Status status = ParseCuptiBuffer(
      buffer.bytes(), "buffer 1", kCupti130, &Next<k130>, &records);
  EXPECT_THAT(std::string(status.message()), HasSubstr("absurd"));
}

TEST(CuptiParseTest, AnEmptyBufferHasNoRecords) {
  CuptiRecords records;
  EXPECT_TRUE(
      ParseCuptiBuffer({}, "buffer 1", kCupti130, &Next<k130>, &records).ok());
  EXPECT_EQ(records, CuptiRecords{});
}

TEST(CuptiLayoutTest, OtherVersionsThan130And132AreRefusedByName) {
  EXPECT_EQ(CuptiLayoutOf(130000)->kernel, 216);
  EXPECT_EQ(CuptiLayoutOf(130001)->kernel, 216);
  EXPECT_EQ(CuptiLayoutOf(130202)->kernel, 224);
  for (const uint32_t version : {0u, 28u, 120800u, 130100u, 130300u, 140000u}) {
    const auto layout = CuptiLayoutOf(version);
    EXPECT_EQ(layout.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(layout.status().message()),
                HasSubstr(std::to_string(version)));
  }
}

}  // namespace
}  // namespace ebbtide
