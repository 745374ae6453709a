#include "tests/fuzz/cupti_parse_input.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "profiler/cupti_api.h"
#include "profiler/cupti_join.h"
#include "profiler/cupti_layout.h"
#include "profiler/cupti_parse.h"
#include "tests/cudasim/cupti_record.h"

namespace ebbtide {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

template <uint32_t kVersion>
CuptiResult Next(uint8_t* buffer, size_t valid, void** record) {
  return cudasim::NextCuptiRecord(buffer, valid, kVersion, record);
}

// Every byte belongs to one record that was read.
size_t SizeOf(const CuptiRecords& records, const CuptiLayout& layout) {
  size_t peers = 0;
  for (const CopyRecord& copy : records.copies) {
    if (copy.direction == CopyDirection::kBetweenDevices) ++peers;
  }
  static_assert(kCupti130.copy == kCupti130.peer_copy);
  return records.kernels.size() * layout.kernel +
         (records.copies.size() - peers) * layout.copy +
         peers * layout.peer_copy + records.sets.size() * layout.set +
         records.externals.size() * layout.external +
         records.calls.size() * layout.call;
}

int64_t CountOf(const WorkTotals& totals) {
  int64_t count = totals.kernels.count + totals.sets.count;
  for (const WorkSum& copies : totals.copies) count += copies.count;
  return count;
}

void TryJoin(const CuptiRecords& records) {
  const auto profile = JoinWork(records);
  if (!profile.ok()) {
    Require(!profile.status().message().empty());
    return;
  }
  int64_t count = CountOf(profile->unattributed);
  for (const auto& [id, totals] : profile->by_id) count += CountOf(totals);
  Require(count ==
          static_cast<int64_t>(records.kernels.size() + records.copies.size() +
                               records.sets.size()));
  for (const DeviceBusy& device : profile->devices) {
    Require(device.any <= device.end - device.begin);
    Require(device.kernels <= device.any && device.copies <= device.any);
    Require(device.any - device.kernels <= device.copies);
  }
}

}  // namespace

bool TryCuptiBuffer(absl::Span<const uint8_t> input) {
  if (input.empty()) return false;
  const bool is_new = input[0] % 2 != 0;
  // A copy of exactly that size, so that a sanitizer sees its end; aligned.
  std::vector<uint8_t> bytes(input.begin() + 1, input.end());
  bytes.shrink_to_fit();
  const CuptiLayout layout = is_new ? kCupti132 : kCupti130;
  CuptiRecords records;
  const absl::Status parsed =
      ParseCuptiBuffer(absl::MakeSpan(bytes), "buffer 1", layout,
                       is_new ? &Next<130202> : &Next<130001>, &records);
  if (!parsed.ok()) {
    Require(records.size() == 0 && !parsed.message().empty());
    return false;
  }
  Require(SizeOf(records, layout) == bytes.size());
  TryJoin(records);
  return true;
}

}  // namespace ebbtide
