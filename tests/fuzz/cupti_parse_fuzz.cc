// Fuzzes the reader of CUPTI's activity buffers and the join with libFuzzer.
// Whatever the bytes are: nothing outside of them is read (under a sanitizer),
// what is read is all of them, and the join refuses or adds up.
#include <cstdint>

#include "tests/fuzz/cupti_parse_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ebbtide::TryCuptiBuffer({data, size});
  return 0;
}
