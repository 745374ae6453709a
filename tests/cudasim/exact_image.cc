#include "tests/cudasim/exact_image.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

namespace cudasim {
namespace {

// Bytes from the first element's begin to the last one's end.
size_t Span(const Image& image) {
  int64_t last = 0;
  for (size_t i = 0; i < image.sizes.size(); ++i) {
    if (image.sizes[i] == 0) return 0;
    last += (image.sizes[i] - 1) * image.strides[i];
  }
  return (last + 1) * c10::elementSize(image.dtype);
}

const std::byte* FirstByte(const Image& image) {
  return static_cast<const std::byte*>(image.storage) +
         image.offset * c10::elementSize(image.dtype);
}

c10::Storage StorageAt(void* bytes, size_t size) {
  return c10::Storage(c10::Storage::use_byte_size_t(), size,
                      at::DataPtr(bytes, at::kCPU), nullptr, false);
}

}  // namespace

Image ImageOf(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided && tensor.has_storage() &&
                  !tensor._is_zerotensor(),
              "it takes a tensor without plain bytes");
  Image image{
      .dtype = tensor.scalar_type(),
      .sizes = tensor.sizes().vec(),
      .strides = tensor.strides().vec(),
      .offset = tensor.storage_offset(),
      .storage = tensor.storage().data(),
      .storage_size = tensor.storage().nbytes(),
      .on_device = tensor.is_cuda(),
      .wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number(),
      .conjugate = tensor.is_conj(),
      .negative = tensor.is_neg(),
      .copied = nullptr};
  TORCH_CHECK(image.on_device || tensor.is_cpu(),
              "it takes a tensor of another kind of device");
  return image;
}

Image ImageWithBytes(const at::Tensor& tensor) {
  Image image = ImageOf(tensor);
  if (image.on_device) return image;
  const std::byte* const first = FirstByte(image);
  image.copied = std::make_shared<const std::vector<std::byte>>(
      first, first + Span(image));
  return image;
}

CudasimAccess AccessOf(const Image& image, bool write) {
  return {FirstByte(image), Span(image), write ? 1 : 0};
}

at::Tensor Canvas::TensorFor(const Image& image) {
  c10::Storage storage;
  int64_t offset = image.offset;
  if (image.copied) {
    offset = 0;
    // Kernels take const inputs by non-const storages.
    storage = StorageAt(const_cast<std::byte*>(image.copied->data()),
                        image.copied->size());
  } else if (const auto found = storages_.find(image.storage);
             found != storages_.end()) {
    storage = found->second;
  } else {
    void* const bytes = image.storage_size == 0
                            ? nullptr
                            : cudasim_bytes(image.storage, image.storage_size);
    TORCH_CHECK(bytes != nullptr || image.storage_size == 0,
                "it touches device memory that is not allocated any more");
    storage = StorageAt(bytes, image.storage_size);
    if (bytes != nullptr) storages_.emplace(image.storage, storage);
  }
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(image.dtype));
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(image.sizes, image.strides, offset);
  if (image.wrapped_number) impl->set_wrapped_number(true);
  if (image.conjugate) tensor._set_conj(true);
  if (image.negative) tensor._set_neg(true);
  return tensor;
}

}  // namespace cudasim
