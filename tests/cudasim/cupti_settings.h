// Settings of the simulated CUPTI, by a test or by the environment.
#ifndef EBBTIDE_TESTS_CUDASIM_CUPTI_SETTINGS_H_
#define EBBTIDE_TESTS_CUDASIM_CUPTI_SETTINGS_H_

#include <cstdint>
#include <string>

#include "tests/cudasim/calls.h"

namespace cudasim {

// cupti_control.h explains them.
struct CuptiSettings {
  int64_t version = 130001;
  int64_t seed = 1;
  int64_t subscribed = 0;
  int64_t deliver_every = 0;
  int64_t records_in_buffer = 0;
  int64_t shuffle_records = 0;
  int64_t shuffle_buffers = 0;
  int64_t late_us = 0;
  int64_t drop_records = 0;
  int64_t hold_buffers = 0;
  int64_t cut_buffers = 0;

  // CUPTISIM_NAME in capitals.
  static CuptiSettings FromEnvironment();
  // False where there is no such setting.
  bool Set(const std::string& name, int64_t value);
};

// CUPTISIM_FAIL; ends the process where that makes no sense.
Calls CuptiFaultsFromEnvironment();

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CUPTI_SETTINGS_H_
