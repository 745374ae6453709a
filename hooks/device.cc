#include "hooks/device.h"

namespace ebbtide {

c10::Storage Device::Borrow(void* block, size_t bytes, int index) const {
  const c10::Device device(type_, type_ == c10::DeviceType::CPU
                                      ? c10::DeviceIndex{-1}
                                      : static_cast<c10::DeviceIndex>(index));
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      c10::DataPtr(block, device));
}

}  // namespace ebbtide
