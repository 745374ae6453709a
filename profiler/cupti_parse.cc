#include "profiler/cupti_parse.h"

#include <cstring>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "profiler/cupti_api.h"

namespace ebbtide {
namespace {

// One whole record. Its fields are within it: the layout's offsets are smaller
// than its sizes.
class Record {
 public:
  explicit Record(const uint8_t* begin) : begin_(begin) {}

  uint8_t Byte(size_t offset) const { return begin_[offset]; }
  uint32_t Word(size_t offset) const { return Read<uint32_t>(offset); }
  uint64_t Id(size_t offset) const { return Read<uint64_t>(offset); }
  // A time or a size. Notes one that is none.
  int64_t Number(size_t offset) {
    const auto number = Read<uint64_t>(offset);
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) {
      too_large_ = true;
      return 0;
    }
    return static_cast<int64_t>(number);
  }
  DeviceWork Work(const CuptiWorkLayout& at) {
    return {.begin = Number(at.begin),
            .end = Number(at.end),
            .device = Word(at.device),
            .stream = Word(at.stream),
            .correlation = Word(at.correlation)};
  }
  bool too_large() const { return too_large_; }

 private:
  template <typename T>
  T Read(size_t offset) const {
    T value;
    memcpy(&value, begin_ + offset, sizeof value);
    return value;
  }

  const uint8_t* const begin_;
  bool too_large_ = false;
};

// As CUPTI numbers them; arrays count as the memory they lie in.
CopyDirection DirectionOf(uint8_t number) {
  switch (number) {
    case 1:  // host to device
    case 3:  // host to array
      return CopyDirection::kToDevice;
    case 2:  // device to host
    case 4:  // array to host
      return CopyDirection::kToHost;
    case 5:  // between arrays, and between arrays and device
    case 6:
    case 7:
    case 8:  // device to device
      return CopyDirection::kOnDevice;
    case 9:
      return CopyDirection::kOnHost;
    case 10:
      return CopyDirection::kBetweenDevices;
    default:
      return CopyDirection::kUnknown;
  }
}

// False where a number is too large.
bool Copy(uint32_t kind, Record record, CuptiRecords* out) {
  switch (kind) {
    case kCuptiConcurrentKernel:
      out->kernels.push_back({record.Work(kKernelLayout)});
      break;
    case kCuptiMemcpy:
      out->copies.push_back({record.Work(kCopyLayout),
                             DirectionOf(record.Byte(kCopyDirectionOffset)),
                             Bytes{record.Number(kCopyBytesOffset)}});
      break;
    case kCuptiMemcpyPeer:
      out->copies.push_back({record.Work(kPeerCopyLayout),
                             CopyDirection::kBetweenDevices,
                             Bytes{record.Number(kCopyBytesOffset)}});
      break;
    case kCuptiMemset:
      out->sets.push_back(
          {record.Work(kSetLayout), Bytes{record.Number(kSetBytesOffset)}});
      break;
    case kCuptiExternalCorrelation:
      out->externals.push_back({record.Word(kExternalLayout.kind),
                                record.Id(kExternalLayout.id),
                                record.Word(kExternalLayout.correlation)});
      break;
    default:  // calls of the driver or the runtime
      out->calls.push_back(
          {kind == kCuptiDriver, record.Word(kCallLayout.function),
           record.Number(kCallLayout.begin), record.Number(kCallLayout.end),
           record.Word(kCallLayout.thread),
           record.Word(kCallLayout.correlation)});
      break;
  }
  return !record.too_large();
}

// Where in a buffer something is wrong.
absl::Status Damage(const std::string& name, size_t offset, uint32_t kind,
                    const std::string& what) {
  return absl::DataLossError(absl::StrCat("CUPTI ", name, ", offset ", offset,
                                          ", record of kind ", kind, ": ",
                                          what));
}

}  // namespace

absl::Status ParseCuptiBuffer(absl::Span<uint8_t> valid,
                              const std::string& name,
                              const CuptiLayout& layout,
                              CuptiNextRecord next_record, CuptiRecords* out) {
  CuptiRecords records;
  void* record = nullptr;
  for (size_t offset = 0; offset < valid.size();) {
    const size_t left = valid.size() - offset;
    if (left < kCuptiKindSize) {
      return absl::DataLossError(absl::StrCat(
          "CUPTI ", name, ", offset ", offset,
          ", record of unknown kind: ", left, " bytes are left of it"));
    }
    uint8_t* const here = valid.data() + offset;
    uint32_t kind = 0;
    memcpy(&kind, here, sizeof kind);
    const size_t size = layout.SizeOf(kind);
    if (size == 0) {
      return Damage(name, offset, kind, "nobody here has asked for it");
    }
    if (left < size) {
      return Damage(name, offset, kind,
                    absl::StrCat(left, " of ", size, " bytes are there"));
    }
    const CuptiResult result = next_record(valid.data(), valid.size(), &record);
    if (result != kCuptiSuccess || record != here) {
      return Damage(name, offset, kind,
                    absl::StrCat("cuptiActivityGetNextRecord does not find it "
                                 "there (result ",
                                 result, ")"));
    }
    if (!Copy(kind, Record(here), &records)) {
      return Damage(name, offset, kind, "a time or a size is absurd");
    }
    offset += size;
  }
  out->Append(records);
  return absl::OkStatus();
}

}  // namespace ebbtide
