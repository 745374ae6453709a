// The bytes of a trace file, described once for writer and reader.
//
//   file    "EBBTIDE\n", version (u32), zero (u32), records
//   record  length of payload (u32), CRC-32C of payload (u32), payload
//   payload type (u8), fields
//
// u32 is little-endian. Integer fields are zigzag varints; times are
// differences from the time before, wherever that stood, and live bytes are
// differences from the sample before. Blocks are differences from the number
// that comes next. A record can thus be read only after those before it, and a
// damaged one ends the readable part.
//
// Version 2 has blocks, notes, tiers and the end of detail, which version 1
// lacks; they replace the samples of live bytes, and spans and evictions name
// their value.
//
// Version 3 has gaps: a record for each step without detail, or for a row of
// them, with the number of blocks that were allocated in it. Those of them that
// are alive behind the gap are found there, with their number.
//
// Names are numbered in the order of their records, from 0. A text longer than
// kTextPart is cut into parts that follow each other, all but the last marked.
#ifndef EBBTIDE_PROFILER_TRACE_FORMAT_H_
#define EBBTIDE_PROFILER_TRACE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "profiler/trace.h"

namespace ebbtide::trace_format {

inline constexpr char kMagic[] = "EBBTIDE\n";
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kOldestVersion = 1;
inline constexpr int kFileHeader = 16;
inline constexpr int kRecordHeader = 8;
inline constexpr int kTextPart = 16 << 10;
inline constexpr int kPeakHolders = 1000;
// No payload is longer.
inline constexpr int kMaxPayload = 64 << 10;

enum class Type : uint8_t {
  kStart = 1,
  kName,
  kSample,
  kSpan,
  kStepBegin,
  kStepEnd,
  kBudget,
  kEviction,
  kPeak,
  kText,
  kEnd,
  kBlock,
  kNote,
  kTier,
  kDetailEnd,
  kGap,
};

// Nor are so many blocks ever allocated in a run.
inline constexpr int64_t kMostBlocks = int64_t{1} << 50;

// No block, and no sum of small ones, is larger: sums of what is read cannot
// overflow before there are a million blocks.
inline constexpr int64_t kMostBytes = int64_t{1} << 42;

// The state to which the next record's differences refer.
struct Context {
  int64_t time = 0;
  BytesByKind live{};
  int64_t blocks = 0;  // allocated so far
  Bytes rest{};
};

uint32_t Crc32c(const char* data, size_t size);
void PutU32(char* to, uint32_t value);
uint32_t GetU32(const char* from);

class Encoder {
 public:
  Encoder(std::string& out, Context& context) : out_(out), context_(context) {}

  void Int(int64_t value) {
    uint64_t rest = (static_cast<uint64_t>(value) << 1) ^
                    static_cast<uint64_t>(value >> 63);
    for (; rest >= 128; rest >>= 7) {
      out_.push_back(static_cast<char>(rest | 128));
    }
    out_.push_back(static_cast<char>(rest));
  }
  uint32_t version() const { return kVersion; }
  void Name(int value) { Int(value); }
  void MaybeName(int value) { Int(value + 1); }
  // kNoBlock is 0.
  void Block(int64_t value) {
    Int(value == kNoBlock ? 0 : context_.blocks - value);
  }
  void KnownBlock(int64_t value) { Block(value); }
  void NextBlock(int64_t /*value*/) { ++context_.blocks; }
  void SkipBlocks(int64_t count) {
    Int(count);
    context_.blocks += count;
  }
  void Rest(Bytes value) {
    Size(value - context_.rest);
    context_.rest = value;
  }
  void Size(Bytes value) { Int(Count(value)); }
  void Amount(Bytes value) { Size(value); }
  void Time(int64_t value) {
    Int(value - context_.time);
    context_.time = value;
  }
  void Live(const BytesByKind& live) {
    for (int kind = 0; kind < kKinds; ++kind) {
      Size(live[kind] - context_.live[kind]);
    }
    context_.live = live;
  }
  template <typename Enum>
  void Choice(Enum value, int /*count*/) {
    out_.push_back(static_cast<char>(value));
  }
  void Text(absl::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    out_.append(text.data(), text.size());
  }

 private:
  std::string& out_;
  Context& context_;
};

// Reads what Encoder wrote. After the first field that does not parse, ok() is
// false and every further value unspecified.
class Decoder {
 public:
  // Names must be smaller than `names`.
  Decoder(absl::string_view in, uint32_t version, int64_t names,
          Context& context)
      : in_(in), version_(version), names_(names), context_(context) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return in_.empty(); }

  uint32_t version() const { return version_; }
  void Int(int64_t& value);
  void Name(int& value);
  void MaybeName(int& value);
  void Block(int64_t& value);
  void KnownBlock(int64_t& value) {
    Block(value);
    ok_ = ok_ && value != kNoBlock;
  }
  void NextBlock(int64_t& value) { value = context_.blocks++; }
  void SkipBlocks(int64_t& count);
  void Rest(Bytes& value);
  void Size(Bytes& value);
  void Amount(Bytes& value);  // at most kMostBytes
  void Time(int64_t& value);
  void Live(BytesByKind& live);
  template <typename Enum>
  void Choice(Enum& value, int count) {
    const int choice = Byte();
    ok_ = ok_ && choice < count;
    value = static_cast<Enum>(choice);
  }
  void Text(std::string& text);

 private:
  int Byte();

  absl::string_view in_;
  const uint32_t version_;
  const int64_t names_;
  Context& context_;
  bool ok_ = true;
};

template <typename Codec, typename Record>
void BlockFields(Codec& codec, Record& record) {
  using What = BlockEvent::What;
  codec.Choice(record.what, codec.version() > 2 ? 5 : 4);
  codec.Time(record.time);
  codec.Rest(record.rest);
  switch (record.what) {
    case What::kAllocate:
    case What::kFound:
      if (record.what == What::kFound) {
        codec.KnownBlock(record.block);
      } else {
        codec.NextBlock(record.block);
      }
      codec.Amount(record.bytes);
      codec.Choice(record.kind, kKinds);
      codec.MaybeName(record.name);
      return;
    case What::kFree:
      return codec.KnownBlock(record.block);
    case What::kRetag:
      codec.KnownBlock(record.block);
      return codec.Choice(record.kind, kKinds);
    case What::kForget:
      return;
  }
}

// The fields of each record. `Codec` is Encoder or Decoder.
template <typename Codec, typename Record>
void Fields(Codec& codec, Record& record) {
  using Data = std::remove_const_t<Record>;
  if constexpr (std::is_same_v<Data, CurveSample>) {
    codec.Time(record.time);
    codec.Live(record.live);
  } else if constexpr (std::is_same_v<Data, Span>) {
    codec.Choice(record.kind, kSpanKinds);
    codec.Name(record.name);
    codec.Time(record.begin);
    codec.Time(record.end);
    codec.Size(record.bytes);
    if (codec.version() > 1) codec.Block(record.value);
  } else if constexpr (std::is_same_v<Data, BudgetChange>) {
    codec.Time(record.time);
    codec.Size(record.budget);
  } else if constexpr (std::is_same_v<Data, Eviction>) {
    codec.Time(record.time);
    codec.Name(record.name);
    codec.Size(record.bytes);
    codec.Choice(record.how, 2);
    if (codec.version() > 1) {
      codec.Block(record.value);
      codec.Choice(record.planned, 2);
    }
  } else if constexpr (std::is_same_v<Data, BlockEvent>) {
    BlockFields(codec, record);
  } else if constexpr (std::is_same_v<Data, BlockNote>) {
    codec.Choice(record.what, kBlockNotes);
    codec.KnownBlock(record.block);
    codec.MaybeName(record.name);
    codec.Block(record.value);
  } else if constexpr (std::is_same_v<Data, TraceGap>) {
    codec.Int(record.first);
    codec.Int(record.last);
    codec.Time(record.begin);
    codec.Time(record.end);
  } else if constexpr (std::is_same_v<Data, TierSample>) {
    codec.Time(record.time);
    codec.Size(record.host);
    codec.Size(record.disk);
  } else {
    static_assert(std::is_same_v<Data, PeakHolder>);
    codec.Name(record.name);
    codec.Size(record.bytes);
    codec.Choice(record.kind, kKinds);
  }
}

}  // namespace ebbtide::trace_format

#endif  // EBBTIDE_PROFILER_TRACE_FORMAT_H_
