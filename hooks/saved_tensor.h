// SavedTensor replaces a saved tensor in the autograd graph by a storage of the
// tape and a geometry.
#ifndef EBBTIDE_HOOKS_SAVED_TENSOR_H_
#define EBBTIDE_HOOKS_SAVED_TENSOR_H_

#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hooks/autograd_node.h"
#include "hooks/tape.h"

namespace ebbtide {

// One pack of one SavedVariable. Unpack may be called any number of times, on
// any thread, outside backward too. Bytes are not read at pack time: some
// kernels fill a saved buffer later.
class SavedTensor final : public torch::autograd::SavedVariableHooks {
 public:
  // Saved while a backward pass runs, for the graph that it makes.
  static constexpr int kInBackward = -1;
  // `position`: among the saves of the pair, or kInBackward.
  explicit SavedTensor(int position) : position_(position) {}
  ~SavedTensor() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  // Compiled autograd then unpacks eagerly instead of failing.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>>
  retrieve_unpack_hook_data() const override {
    return std::nullopt;
  }

 private:
  at::Tensor Unpack();
  void NoteVersion(const at::Tensor& tensor);
  void CheckVersion() const;
  std::string MakerOfModified() const;

  const int position_;
  // Kept as it is: not plain, or nothing to manage, or a parameter, which
  // PyTorch saves as the variable and not as its bytes (`p.data = other`).
  at::Tensor kept_;
  // Bytes of a storage on the tape; nullptr where nothing is managed.
  std::shared_ptr<Tape> tape_;
  int storage_ = -1;
  Geometry geometry_;

  // Hooks make PyTorch skip its own version check; this is the same check with
  // the same words.
  c10::VariableVersion version_{c10::VariableVersion::DISABLED};
  uint32_t saved_version_ = 0;
  uint32_t output_nr_ = 0;
  WeakNodePointer grad_fn_ = WeakOf(NodePointer());
  const void* identity_ = nullptr;  // identity of the variable, which may be
                                    // gone
  // A variable that is not a leaf, to find its present grad_fn. (A weak
  // reference to a leaf would make torch.utils.swap_tensors refuse.)
  c10::weak_intrusive_ptr<c10::TensorImpl> variable_{
      c10::intrusive_ptr<c10::TensorImpl>()};
  // Set for a differentiable view.
  std::optional<torch::autograd::CreationMeta> view_;
  bool has_view_function_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_SAVED_TENSOR_H_
