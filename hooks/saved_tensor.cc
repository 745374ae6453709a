#include "hooks/saved_tensor.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <tuple>

#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

using torch::autograd::CreationMeta;
using torch::autograd::Node;

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

std::string MadeBy(const std::string& node, uint32_t output) {
  return c10::str(", which is output ", output, " of ", node, ",");
}

// Views of several outputs, and those made without grad, may not be written in
// place: throws PyTorch's own words for that.
void RaiseAsUnwritableView(CreationMeta made, const NodePointer& by,
                           uint32_t output) {
  if (made == CreationMeta::DEFAULT) return;
  const at::Tensor base = at::empty({0});
  const at::Tensor view = at::empty({0});
  torch::autograd::DifferentiableViewMeta meta(
      view.unsafeGetTensorImpl(),
      torch::autograd::ViewInfo(base, nullptr, nullptr),
      /*forward_info=*/std::nullopt, /*shared_view_info=*/true, made);
  meta.grad_fn_ = by;
  meta.output_nr_ = output;
  torch::autograd::handle_view_on_rebase(&meta, /*indirect=*/true);
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
  if (!tensor.is_inference()) NoteVersion(tensor);
  const bool plain = IsPlainTensor(tensor);
  if (position_ == kInBackward) {
    const bool is_leaf = tensor.is_leaf() && tensor.requires_grad();
    if (plain && !is_leaf) {
      std::tie(tape_, storage_) = Runtime::Global().RememberInBackward(tensor);
    }
    if (tape_ == nullptr) {
      // A leaf is saved as the variable (kept_); of a result that its own maker
      // saves the variable would hold its maker.
      kept_ = is_leaf ? tensor : tensor.detach();
    } else {
      SetGeometry(tensor, &geometry_);
    }
    return;
  }
  if (plain) tape_ = Runtime::Global().TapeForPack();
  if (tape_ == nullptr) {
    kept_ = tensor.detach();
    if (!plain) Runtime::Global().NoteUntaped(tensor);
    return;
  }
  if (tensor.is_leaf() && tensor.requires_grad()) kept_ = tensor;
  SetGeometry(tensor, &geometry_);
  storage_ = Runtime::Global().Remember(tape_.get(), tensor, position_);
}

void SavedTensor::NoteVersion(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  identity_ = impl;
  version_ = impl->version_counter();
  saved_version_ = version_.current_version();
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return;
  grad_fn_ = WeakOf(meta->grad_fn_);
  output_nr_ = meta->output_nr_;
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  if (view != nullptr && view->has_bw_view() &&
      (meta->grad_fn_ != nullptr ||
       view->get_backward_view().base_.requires_grad())) {
    view_ = view->get_creation_meta();
    has_view_function_ = view->get_backward_view().has_view_fn();
  }
  if (view_ || meta->grad_fn_ != nullptr) variable_ = tensor.getIntrusivePtr();
}

at::Tensor SavedTensor::call_unpack_hook() {
  try {
    return Unpack();
  } catch (const c10::OutOfMemoryError& error) {
    Runtime::Global().RaiseWithReport(error);
  }
}

at::Tensor SavedTensor::Unpack() {
  const RuntimeLock lock;
  const Busy busy;
  CheckVersion();
  if (tape_ == nullptr) return kept_;
  const c10::Storage bytes = Runtime::Global().Fetch(tape_, storage_);
  return kept_.defined() ? kept_ : MakeTensor(bytes, geometry_);
}

// PyTorch keeps the variable and names who has made what it is by now: an
// in-place op becomes the maker, and a view gets a new one once its base has
// been written. Throws where the view may not be written at all.
std::string SavedTensor::MakerOfModified() const {
  NodePointer maker = grad_fn_.lock();
  uint32_t output = output_nr_;
  if (maker != nullptr && maker == torch::autograd::get_current_node()) {
    // A result that its own maker saved: of that PyTorch keeps the bytes alone.
  } else if (const auto impl = variable_.lock()) {
    const at::Tensor variable(impl);
    maker = variable.grad_fn();
    output = variable.output_nr();
  } else if (view_) {
    RaiseAsUnwritableView(*view_, maker, output);
    if (!has_view_function_) {
      return MadeBy(kNamesForwardOps<Node> ? "AsStrided" : "AsStridedBackward0",
                    0);
    }
  } else if (tape_ != nullptr) {
    for (const auto& writer : tape_->storages[storage_].written) {
      if (writer.variable == identity_) return MadeBy(writer.name, 0);
    }
  }
  if (maker == nullptr) return "";
  return MadeBy(NameInErrors(*maker), output);
}

void SavedTensor::CheckVersion() const {
  if (!version_.enabled()) return;
  const uint32_t current = version_.current_version();
  if (current == saved_version_) return;
  const std::string maker = MakerOfModified();
  // Its name and its sizes alone.
  const at::Tensor shape =
      kept_.defined()
          ? kept_
          : MakeTensor(Device::Get().Borrow(nullptr, 0, tape_->device),
                       geometry_);
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified "
      "by an inplace operation: [",
      shape.toString(), " ", shape.sizes(), "]", maker, " is at version ",
      current, "; expected version ", saved_version_, " instead. ", Hint());
}

}  // namespace ebbtide
