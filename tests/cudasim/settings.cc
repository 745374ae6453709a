#include "tests/cudasim/settings.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace cudasim {
namespace {

[[noreturn]] void Refuse(const char* variable, const char* value) {
  fprintf(stderr, "cudasim: %s=%s makes no sense\n", variable, value);
  abort();
}

// Calls read(value, &rest) where the variable is set; `rest` must end up empty.
template <typename Read>
void IfSet(const char* variable, Read read) {
  const char* const value = getenv(variable);
  if (value == nullptr || *value == '\0') return;
  char* rest = nullptr;
  read(value, &rest);
  if (rest == value || *rest != '\0') Refuse(variable, value);
}

void ReadDouble(const char* variable, double* out) {
  IfSet(variable,
        [out](const char* v, char** rest) { *out = strtod(v, rest); });
}

void ReadMicroseconds(const char* variable, double* nanoseconds) {
  double microseconds = 0;
  ReadDouble(variable, &microseconds);
  *nanoseconds = microseconds * 1e3;
}

void ReadInt(const char* variable, int* out) {
  IfSet(variable, [out](const char* v, char** rest) {
    *out = static_cast<int>(strtol(v, rest, 0));
  });
}

void ReadSize(const char* variable, uint64_t* out) {
  IfSet(variable, [out](const char* v, char** rest) {
    *out = strtoull(v, rest, 0);
    for (const std::string_view unit : {"K", "M", "G"}) {
      *out *= 1024;
      if (**rest == unit[0]) {
        ++*rest;
        return;
      }
    }
    *out >>= 30;
  });
}

Schedule ReadSchedule(const char* variable) {
  const char* const value = getenv(variable);
  if (value == nullptr || *value == '\0') return Schedule::kLate;
  const std::string_view names[] = {"eager", "ontime", "late", "race",
                                    "random"};
  for (int i = 0; i < 5; ++i) {
    if (names[i] == value) return static_cast<Schedule>(i);
  }
  Refuse(variable, value);
}

// The variables of the device's size are read behind it, and win.
void ReadDevice(Settings* s) {
  const char* const path = getenv("CUDASIM_DEVICE_FILE");
  if (path == nullptr || *path == '\0') return;
  std::string error;
  s->device = ReadDeviceModel(path, &error);
  if (s->device) {
    s->multiprocessors = s->device->multiprocessors;
    return;
  }
  fprintf(stderr, "cudasim: CUDASIM_DEVICE_FILE: %s\n", error.c_str());
  abort();
}

}  // namespace

Settings Settings::FromEnvironment() {
  Settings s;
  ReadInt("CUDASIM_DEVICES", &s.heap.devices);
  if (s.heap.devices < 1 || s.heap.devices > kMaxDevices) {
    Refuse("CUDASIM_DEVICES", getenv("CUDASIM_DEVICES"));
  }
  ReadSize("CUDASIM_MEM", &s.heap.capacity);
  ReadSize("CUDASIM_ADDRESSES", &s.heap.address_space);
  int poison = -1;
  ReadInt("CUDASIM_POISON", &poison);
  if (poison >= 0) s.heap.poison = static_cast<uint8_t>(poison);
  s.schedule = ReadSchedule("CUDASIM_SCHEDULE");
  IfSet("CUDASIM_SEED",
        [&](const char* v, char** rest) { s.seed = strtoull(v, rest, 0); });
  ReadDevice(&s);
  ReadInt("CUDASIM_CC", &s.compute_capability);
  ReadInt("CUDASIM_SMS", &s.multiprocessors);
  ReadDouble("CUDASIM_H2D_GBPS", &s.rates.h2d_gbps);
  ReadDouble("CUDASIM_D2H_GBPS", &s.rates.d2h_gbps);
  ReadDouble("CUDASIM_KERNEL_US", &s.rates.kernel_us);
  ReadDouble("CUDASIM_HOST_US", &s.rates.host_us);
  if (const char* faults = getenv("CUDASIM_FAIL")) s.faults = faults;
  ReadMicroseconds("CUDASIM_OP_HOST_US", &s.host_time.main.op_ns);
  ReadMicroseconds("CUDASIM_BACKWARD_OP_HOST_US", &s.host_time.autograd.op_ns);
  ReadMicroseconds("CUDASIM_OWN_BASE_US", &s.host_time.main.base_ns);
  ReadMicroseconds("CUDASIM_BACKWARD_OWN_BASE_US",
                   &s.host_time.autograd.base_ns);
  s.host_time.counts_own =
      s.host_time.main.base_ns > 0 && s.host_time.autograd.base_ns > 0;
  int moves_bytes = 1;
  ReadInt("CUDASIM_BYTES", &moves_bytes);
  s.moves_bytes = moves_bytes != 0;
  ReadInt("CUDASIM_FLAG", &s.flag);
  if (!s.moves_bytes && s.heap.poison) {
    Refuse("CUDASIM_POISON", getenv("CUDASIM_POISON"));
  }
  return s;
}

}  // namespace cudasim
