#include "tests/cudasim/cupti_record.h"

#include <cstring>

namespace cudasim {
namespace {

constexpr uint32_t kFirstWithPriority = 130200;

class Writer {
 public:
  explicit Writer(std::byte* begin) : begin_(begin) {}

  template <typename T>
  Writer& Put(size_t offset, T value) {
    memcpy(begin_ + offset, &value, sizeof value);
    return *this;
  }

 private:
  std::byte* const begin_;
};

}  // namespace

size_t CuptiSizeOf(uint32_t kind, uint32_t version) {
  switch (kind) {
    case kKernelKind:  // records 10 and 11
      return version < kFirstWithPriority ? 216 : 224;
    case kCopyKind:  // record 6; 4 of those to a peer
    case kPeerCopyKind:
      return 96;
    case kSetKind:  // record 4
      return 88;
    case kDriverKind:
    case kRuntimeKind:
      return 40;
    case kExternalKind:
      return 24;
    default:
      return 0;
  }
}

void WriteCuptiRecord(const CuptiRecord& r, uint32_t version, std::byte* out) {
  memset(out, 0xa5, CuptiSizeOf(r.kind, version));
  Writer to(out);
  to.Put(0, r.kind);
  switch (r.kind) {
    case kKernelKind:
      to.Put(16, r.begin).Put(24, r.end).Put(40, r.device).Put(48, r.stream);
      to.Put(92, r.correlation).Put(104, r.name);
      break;
    case kPeerCopyKind:
      to.Put(4, r.direction).Put(8, r.bytes).Put(16, r.begin).Put(24, r.end);
      to.Put(32, r.device).Put(40, r.stream).Put(60, r.correlation);
      break;
    case kCopyKind:
      to.Put(4, r.direction);
      [[fallthrough]];
    case kSetKind:
      to.Put(8, r.bytes).Put(16, r.begin).Put(24, r.end);
      to.Put(32, r.device).Put(40, r.stream).Put(44, r.correlation);
      break;
    case kExternalKind:
      to.Put(4, r.external_kind).Put(8, r.external_id).Put(16, r.correlation);
      break;
    default:
      to.Put(4, r.function).Put(8, r.begin).Put(16, r.end);
      to.Put(28, r.thread).Put(32, r.correlation);
      break;
  }
}

int NextCuptiRecord(uint8_t* buffer, size_t valid, uint32_t version,
                    void** record) {
  const auto kind_at = [&](size_t offset) {
    uint32_t kind = 0;
    memcpy(&kind, buffer + offset, sizeof kind);
    return kind;
  };
  size_t offset = 0;
  if (*record != nullptr) {
    offset = static_cast<uint8_t*>(*record) - buffer;
    offset += CuptiSizeOf(kind_at(offset), version);
  }
  if (valid < sizeof(uint32_t) || offset > valid - sizeof(uint32_t)) {
    return kCuptiMaxLimitReached;
  }
  const size_t size = CuptiSizeOf(kind_at(offset), version);
  if (size == 0) return kCuptiInvalidKind;
  // The real one takes a record that is cut off for the end, too.
  if (valid - offset < size) return kCuptiMaxLimitReached;
  *record = buffer + offset;
  return kCuptiOk;
}

}  // namespace cudasim
