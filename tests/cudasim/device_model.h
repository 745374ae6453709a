// DeviceModel is how long a real device and its driver take for what a program
// asks of them, as bench/gpu/device_probe.py measures it.
//
// The simulator takes these times instead of its round ones where
// CUDASIM_DEVICE_FILE names such a measurement.
#ifndef EBBTIDE_TESTS_CUDASIM_DEVICE_MODEL_H_
#define EBBTIDE_TESTS_CUDASIM_DEVICE_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudasim {

// Nanoseconds by bytes, linear between measured sizes and beyond the last. A
// size never costs more than a larger one: the first call measured also set up
// the driver.
class SizeCurve {
 public:
  // (bytes, nanoseconds) in ascending order of bytes, at least one.
  explicit SizeCurve(std::vector<std::pair<double, double>> points);
  double At(uint64_t bytes) const;

 private:
  std::vector<std::pair<double, double>> points_;
};

struct DeviceModel {
  std::string name;
  int multiprocessors = 0;
  int l2_bytes = 0;

  // Nanoseconds that the calling thread spends.
  SizeCurve malloc, free, host_register, host_unregister, touch;
  double host_alloc_per_byte = 0;
  double mem_get_info = 0;
  double launch = 0;
  double event_record = 0;
  double timing_event_record = 0;
  double event_query = 0;
  double stream_wait = 0;

  // Copies: bytes per nanosecond with one way in use, and of each way with
  // both, behind `copy_start` nanoseconds.
  double to_host = 0;
  double to_device = 0;
  double both_ways = 0;
  double copy_start = 0;

  // Rates of the device per nanosecond: operations of bfloat16 products, and
  // bytes read and written by an elementwise op.
  double product_flops = 0;
  double memory_bytes = 0;

  // Nanoseconds of a call whose time does not depend on a size.
  double CallTime(std::string_view function) const;
};

// The call only looks up what the library has. It was not measured, and takes
// the simulator about as long as a driver.
bool IsLookup(std::string_view function);

// Reads the JSON that device_probe.py prints. Returns nullopt where an entry is
// missing, no number, not positive or not finite; `error` then names the file
// and the entry.
std::optional<DeviceModel> ReadDeviceModel(const std::string& path,
                                           std::string* error);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_DEVICE_MODEL_H_
