#include "profiler/trace_format.h"

#include <array>

namespace ebbtide::trace_format {
namespace {

// Castagnoli's polynomial, reflected.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

uint32_t Crc32c(const char* data, size_t size) {
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < size; ++i) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(data[i])) & 255];
  }
  return ~crc;
}

void PutU32(char* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

uint32_t GetU32(const char* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(from[i])} << (8 * i);
  }
  return value;
}

int Decoder::Byte() {
  if (in_.empty()) {
    ok_ = false;
    return 0;
  }
  const int byte = static_cast<uint8_t>(in_.front());
  in_.remove_prefix(1);
  return byte;
}

void Decoder::Int(int64_t& value) {
  uint64_t bits = 0;
  int byte = 128;
  for (int shift = 0; byte >= 128 && ok_; shift += 7) {
    byte = Byte();
    if (shift >= 64) ok_ = false;
    if (ok_) bits |= static_cast<uint64_t>(byte & 127) << shift;
  }
  value = static_cast<int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
}

void Decoder::Name(int& value) {
  int64_t wide = 0;
  Int(wide);
  ok_ = ok_ && wide >= 0 && wide < names_;
  value = ok_ ? static_cast<int>(wide) : 0;
}

void Decoder::MaybeName(int& value) {
  int64_t wide = 0;
  Int(wide);
  ok_ = ok_ && wide >= 0 && wide <= names_;
  value = ok_ ? static_cast<int>(wide) - 1 : -1;
}

void Decoder::Block(int64_t& value) {
  int64_t before = 0;
  Int(before);
  ok_ = ok_ && before >= 0 && before <= context_.blocks;
  value = ok_ && before > 0 ? context_.blocks - before : kNoBlock;
}

void Decoder::SkipBlocks(int64_t& count) {
  Int(count);
  ok_ = ok_ && count >= 0 && count <= kMostBlocks - context_.blocks;
  if (ok_) context_.blocks += count;
}

void Decoder::Rest(Bytes& value) {
  int64_t step = 0;
  Int(step);
  ok_ = ok_ && step >= -2 * kMostBytes && step <= 2 * kMostBytes;
  if (ok_) context_.rest += Bytes{step};
  value = context_.rest;
  ok_ = ok_ && value >= Bytes{-kMostBytes} && value <= Bytes{kMostBytes};
}

void Decoder::Size(Bytes& value) {
  int64_t count = 0;
  Int(count);
  value = Bytes{count};
}

void Decoder::Amount(Bytes& value) {
  Size(value);
  ok_ = ok_ && value >= Bytes{0} && value <= Bytes{kMostBytes};
}

// Sums wrap: a damaged file must not be undefined behaviour.
void Decoder::Time(int64_t& value) {
  int64_t step = 0;
  Int(step);
  value = static_cast<int64_t>(static_cast<uint64_t>(context_.time) +
                               static_cast<uint64_t>(step));
  context_.time = value;
}

void Decoder::Live(BytesByKind& live) {
  for (int kind = 0; kind < kKinds; ++kind) {
    int64_t step = 0;
    Int(step);
    live[kind] = Bytes{
        static_cast<int64_t>(static_cast<uint64_t>(Count(context_.live[kind])) +
                             static_cast<uint64_t>(step))};
  }
  context_.live = live;
}

void Decoder::Text(std::string& text) {
  int64_t size = 0;
  Int(size);
  ok_ = ok_ && size >= 0 && size <= static_cast<int64_t>(in_.size());
  if (!ok_) return;
  text.assign(in_.data(), size);
  in_.remove_prefix(size);
}

}  // namespace ebbtide::trace_format
