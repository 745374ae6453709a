// The buffers that CUPTI fills, and the records read from them. CUPTI asks for
// buffers and hands them back from threads of its own or of the program, at any
// time, also long after it was stopped. So a buffer belongs to the window in
// which it was asked for, and stays valid until it comes back.
//
// Thread-safe. The records are parsed on the thread that brings them; no lock
// is held meanwhile, nor at any other call of CUPTI.
#ifndef EBBTIDE_PROFILER_CUPTI_COLLECTOR_H_
#define EBBTIDE_PROFILER_CUPTI_COLLECTOR_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "profiler/cupti_layout.h"
#include "profiler/cupti_parse.h"
#include "profiler/cupti_records.h"

namespace ebbtide {

class CuptiCollector {
 public:
  struct Limits {
    size_t buffer = size_t{1} << 20;  // bytes of each
    int buffers = 32;                 // given to CUPTI at once
    int64_t records = int64_t{1} << 19;
  };
  struct Collected {
    CuptiRecords records;
    // Why they are not all that happened, if they are not.
    absl::Status status;
    int lost_buffers = 0;  // have not come back
  };

  // One per process, never destroyed: CUPTI's callbacks take no argument.
  static CuptiCollector& Get();

  // A window begins. FailedPrecondition while there is one.
  absl::Status Open(const CuptiLayout& layout, CuptiNextRecord next_record,
                    const Limits& limits);
  bool is_open() const;
  // Waits until all buffers of this window are back and read. False where
  // `patience` was not enough.
  bool AwaitBuffers(std::chrono::nanoseconds patience);
  // The window ends; all memory is released but that of buffers which CUPTI has
  // kept. They count as given to it until they come back.
  Collected Close();

  // For CUPTI. A request beyond the limit, or outside of a window, is declined
  // by a null buffer: every version of CUPTI whose records we read (13.0 and
  // 13.2) then drops records and counts them. Versions before 12.9 crashed.
  void Request(uint8_t** buffer, size_t* size, size_t* records);
  void Complete(uint8_t* buffer, size_t valid);

  int lent() const;  // buffers that CUPTI has now

 private:
  using Memory = std::unique_ptr<uint64_t[]>;  // aligned as CUPTI asks for
  struct Lent {
    Memory memory;
    size_t size;
    uint64_t window;
  };
  // Parameters of a window, and its records so far.
  struct Window {
    CuptiLayout layout{};
    CuptiNextRecord next_record = nullptr;
    Limits limits;
    CuptiRecords records;
    absl::Status damage;   // the first
    int64_t declined = 0;  // requests
    int64_t completed = 0;
    int reading = 0;  // buffers that are being parsed
    std::vector<Memory> free;
  };
  int Outstanding() const;
  void Keep(const CuptiRecords& records, const absl::Status& parsed);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint8_t*, Lent> lent_;
  std::unique_ptr<Window> window_;
  uint64_t windows_ = 0;  // so far; the number of the open one
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_COLLECTOR_H_
