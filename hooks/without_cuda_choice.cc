// Which device the form of the core without CUDA manages.
#include "hooks/cpu_device.h"

namespace ebbtide {

Device* ChooseDevice(Settings* /*settings*/) {
  static Device& cpu = *new CpuDevice;
  return &cpu;
}

}  // namespace ebbtide
