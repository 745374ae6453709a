// The CUDA driver as the loader finds it.
#ifndef EBBTIDE_CLI_DRIVER_VIEW_H_
#define EBBTIDE_CLI_DRIVER_VIEW_H_

#include <cstdint>
#include <string>

namespace ebbtide {

struct DriverView {
  std::string file;     // the library, links resolved; empty: there is none
  std::string problem;  // why it cannot be used; empty: it can
  int64_t version = 0;  // version of CUDA, as 12040; 0: unknown
  // Devices that cannot map memory in pages.
  int64_t without_pages = 0;
};

// Opens libcuda.so.1 as every program does, by the loader's own search, and
// starts it. A child of fork does that: a driver may hang or crash. No thread
// may run beside the caller. Takes a second where there are devices.
DriverView LookAtDriver();

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_DRIVER_VIEW_H_
