// One run of the fuzzer of activity buffers with one input; the default tests
// do it with a few (tests/profiler/cupti_corpus_test.cc).
#ifndef EBBTIDE_TESTS_FUZZ_CUPTI_PARSE_INPUT_H_
#define EBBTIDE_TESTS_FUZZ_CUPTI_PARSE_INPUT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ebbtide {

// Aborts where a promise is broken. The first byte chooses the version, the
// others are the buffer. True where the buffer was read.
bool TryCuptiBuffer(absl::Span<const uint8_t> input);

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_FUZZ_CUPTI_PARSE_INPUT_H_
