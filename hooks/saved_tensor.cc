#include "hooks/saved_tensor.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/busy.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

const char* Hint() {
  if (torch::autograd::AnomalyMode::is_enabled()) {
    return "Hint: the backtrace further above shows the operation that failed "
           "to compute its gradient. The variable in question was changed in "
           "there or anywhere later. Good luck!";
  }
  return "Hint: enable anomaly detection to find the operation that failed to "
         "compute its gradient, with torch.autograd.set_detect_anomaly(True, "
         "check_nan=False).";
}

}  // namespace

SavedTensor::~SavedTensor() {
  if (tape_ == nullptr) return;
  const RuntimeLock lock;
  const Busy busy;
  Runtime::Global().Forget(tape_.get(), storage_);
}

void SavedTensor::call_pack_hook(const at::Tensor& tensor) {
  const RuntimeLock lock;
  const Busy busy;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.is_inference()) {
    version_ = impl->version_counter();
    saved_version_ = version_.current_version();
    if (const auto* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
      grad_fn_ = meta->grad_fn_;
      output_nr_ = meta->output_nr_;
    }
  }
  const bool plain = IsPlainTensor(tensor);
  if (plain) tape_ = Runtime::Global().TapeForPack();
  if (tape_ == nullptr) {
    kept_ = tensor.detach();
    return;
  }
  geometry_ = GeometryOf(tensor);
  storage_ = Runtime::Global().Remember(tape_.get(), tensor, position_);
}

at::Tensor SavedTensor::call_unpack_hook() {
  const RuntimeLock lock;
  const Busy busy;
  CheckVersion();
  if (tape_ == nullptr) return kept_;
  return MakeTensor(Runtime::Global().Fetch(tape_, storage_), geometry_);
}

void SavedTensor::CheckVersion() const {
  if (!version_.enabled()) return;
  const uint32_t current = version_.current_version();
  if (current == saved_version_) return;
  std::string made_by;
  if (const auto node = grad_fn_.lock()) {
    made_by =
        c10::str(", which is output ", output_nr_, " of ", node->name(), ",");
  }
  const at::Tensor shape =
      tape_ == nullptr
          ? kept_
          : at::empty_strided(geometry_.sizes, geometry_.strides,
                              at::TensorOptions().dtype(geometry_.dtype));
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified "
      "by an inplace operation: [",
      shape.toString(), " ", shape.sizes(), "]", made_by, " is at version ",
      current, "; expected version ", saved_version_, " instead. ", Hint());
}

}  // namespace ebbtide
