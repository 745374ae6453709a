// Settings from the environment (control.h lists the variables).
#ifndef EBBTIDE_TESTS_CUDASIM_SETTINGS_H_
#define EBBTIDE_TESTS_CUDASIM_SETTINGS_H_

#include <optional>
#include <string>

#include "tests/cudasim/device_model.h"
#include "tests/cudasim/heap.h"
#include "tests/cudasim/host_time.h"
#include "tests/cudasim/queue.h"

namespace cudasim {

inline constexpr int kMaxDevices = 8;

// Rates of the virtual clock.
struct Rates {
  double h2d_gbps = 25;
  double d2h_gbps = 25;
  double kernel_us = 5;
  double host_us = 1;
};

struct Settings {
  HeapOptions heap;
  Rates rates;
  Schedule schedule = Schedule::kLate;
  uint64_t seed = 1;
  int compute_capability = 80;
  int multiprocessors = 108;
  std::string faults;
  std::optional<DeviceModel> device;  // instead of the rates, where given
  HostTimeOptions host_time;
  // False: copies and sets take their time and move no bytes, so that device
  // and registered memory take none of the machine's. Reads of the device by
  // the host give zero, but `flag` for a single byte, which programs read to
  // see if all elements are as expected.
  bool moves_bytes = true;
  int flag = 0;

  // Ends the process at a value that makes no sense, which it names.
  static Settings FromEnvironment();
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_SETTINGS_H_
