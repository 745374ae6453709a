// The place and the layout of a tensor's bytes: enough to build the tensor on
// the CPU later.
#ifndef EBBTIDE_TESTS_CUDASIM_EXACT_IMAGE_H_
#define EBBTIDE_TESTS_CUDASIM_EXACT_IMAGE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/cudasim/control.h"

namespace cudasim {

// Holds no reference to the tensor, so that it changes no lifetime and can be
// dropped on any thread.
struct Image {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset;       // in elements
  const void* storage;  // the program's address
  size_t storage_size;  // bytes
  bool on_device;
  bool wrapped_number;  // counts less in type promotion
  bool conjugate;
  bool negative;
  // Host memory is read when the op is called, and belongs to the program again
  // when it returns; its bytes from the first to the last element.
  std::shared_ptr<const std::vector<std::byte>> copied;
};

// An argument of type Tensor? may be absent.
using Images = std::vector<std::optional<Image>>;

// Throws for what has no plain strided bytes.
Image ImageOf(const at::Tensor& tensor);
// With the bytes of host memory as they are now.
Image ImageWithBytes(const at::Tensor& tensor);

// The bytes between the first and the last element.
CudasimAccess AccessOf(const Image& image, bool write);

// Makes CPU tensors that lie where images lie. Tensors of one storage share it,
// so that kernels see what overlaps.
class Canvas {
 public:
  // Throws where the bytes are not allocated any more.
  at::Tensor TensorFor(const Image& image);

 private:
  std::map<const void*, c10::Storage> storages_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_EXACT_IMAGE_H_
