// Reads the records out of one of CUPTI's activity buffers.
#ifndef EBBTIDE_PROFILER_CUPTI_PARSE_H_
#define EBBTIDE_PROFILER_CUPTI_PARSE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "profiler/cupti_layout.h"
#include "profiler/cupti_records.h"

namespace ebbtide {

// cuptiActivityGetNextRecord.
using CuptiNextRecord = int32_t (*)(uint8_t* buffer, size_t valid,
                                    void** record);

// Appends the records in `valid`, the bytes of a buffer that CUPTI says are
// valid; `out` is as it was on error. `name` says in errors which buffer it is.
//
// The walk is CUPTI's own function and checked against the layout: where they
// disagree the layout is not that of the library, and nothing is read. CUPTI's
// function looks at the bytes behind the valid ones where these end within a
// record, and takes such an end for the regular one; so it is asked only where
// a whole record of a known kind is there.
//
// DataLoss: the last record is cut off, a record is of a kind that was never
// asked for (so another profiler uses CUPTI), the walks disagree, or a number
// is larger than any time or size can be. The message has buffer, offset and
// kind.
absl::Status ParseCuptiBuffer(absl::Span<uint8_t> valid,
                              const std::string& name,
                              const CuptiLayout& layout,
                              CuptiNextRecord next_record, CuptiRecords* out);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_PARSE_H_
