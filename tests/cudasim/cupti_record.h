// Activity records in CUPTI's layouts. Their layout is written down here once
// more, apart from profiler/cupti_layout.h: the reader is not to be right by
// the mistake of the writer.
#ifndef EBBTIDE_TESTS_CUDASIM_CUPTI_RECORD_H_
#define EBBTIDE_TESTS_CUDASIM_CUPTI_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace cudasim {

// CUPTI's results that the simulator gives by itself.
enum CuptiError {
  kCuptiOk = 0,
  kCuptiInvalidParameter = 1,
  kCuptiInvalidOperation = 7,
  kCuptiTooSmall = 10,
  kCuptiMaxLimitReached = 12,
  kCuptiQueueEmpty = 18,
  kCuptiInvalidKind = 21,
  kCuptiOneSubscriberOnly = 39,
};

// CUPTI's numbers of kinds.
enum CuptiKind : uint32_t {
  kCopyKind = 1,
  kSetKind = 2,
  kDriverKind = 4,
  kRuntimeKind = 5,
  kKernelKind = 10,
  kPeerCopyKind = 22,
  kExternalKind = 39,
};

// One record of any kind; each kind uses some of it.
struct CuptiRecord {
  uint32_t kind = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t device = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  uint64_t bytes = 0;
  uint8_t direction = 0;       // direction of a copy
  uint32_t function = 0;       // function of a call
  uint32_t thread = 0;         // thread of a call
  uint32_t external_kind = 0;  // kind of an external correlation
  uint64_t external_id = 0;
  const char* name = nullptr;  // name of a kernel
  uint64_t ahead = 0;          // added to the times where they are written

  bool is_work() const {
    return kind == kKernelKind || kind == kCopyKind || kind == kSetKind ||
           kind == kPeerCopyKind;
  }
};

// 0 for any other kind.
size_t CuptiSizeOf(uint32_t kind, uint32_t version);
// Writes CuptiSizeOf bytes. Other bytes are filled with a pattern: a reader of
// the wrong field finds no zero there.
void WriteCuptiRecord(const CuptiRecord& record, uint32_t version,
                      std::byte* out);
// The walk over a buffer, as CUPTI does it but for one thing: it never looks
// behind the valid bytes.
int NextCuptiRecord(uint8_t* buffer, size_t valid, uint32_t version,
                    void** record);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CUPTI_RECORD_H_
