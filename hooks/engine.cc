#include "hooks/engine.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/version.h>

#include <memory>
#include <vector>

#include "hooks/autograd_node.h"
#include "hooks/busy.h"
#include "hooks/runtime.h"
#include "hooks/saved_tensor.h"

namespace ebbtide {
namespace {

using torch::autograd::Engine;

class DelegatingEngine final : public Engine {
 public:
  explicit DelegatingEngine(Engine& inner) : inner_(inner) {}

  torch::autograd::variable_list execute(
      const torch::autograd::edge_list& roots,
      const torch::autograd::variable_list& inputs, bool keep_graph,
      bool create_graph, bool accumulate_grad,
      const torch::autograd::edge_list& outputs) override {
    return inner_.execute(roots, inputs, keep_graph, create_graph,
                          accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      NodePointer graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return inner_.execute_with_graph_task(graph_task, std::move(graph_root),
                                          std::move(input_buffer));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata()
      override {
    return inner_.make_anomaly_metadata();
  }

  void thread_on_exception(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      const NodePointer& fn, std::exception& e) override {
    inner_.thread_on_exception(graph_task, fn, e);
  }

  void thread_init(int device,
                   const std::shared_ptr<torch::autograd::ReadyQueue>& queue,
                   bool should_increment) override {
    inner_.thread_init(device, queue, should_increment);
  }

  // Hooks of the user, of torch.utils.checkpoint and of others win, as the top
  // of the stack does without us.
  std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override {
    if (auto theirs = inner_.get_default_saved_variable_hooks()) {
      Runtime::Global().NoteForeignHooks();
      return theirs;
    }
    if (Busy::IsSet() || !Runtime::Global().WantsHooks()) return nullptr;
    if (at::SavedTensorDefaultHooks::get_tls_state().is_tracing) {
      return nullptr;
    }
    if (torch::autograd::get_current_graph_task_id() != -1) {
      return std::make_unique<SavedTensor>(SavedTensor::kInBackward);
    }
    const auto position = Runtime::Global().NextSave();
    if (!position) return nullptr;
    return std::make_unique<SavedTensor>(*position);
  }

#if TORCH_VERSION_MINOR >= 14
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>>
  get_node_creation_hooks() override {
    return inner_.get_node_creation_hooks();
  }
#endif

 protected:
  // Only an engine's own worker threads run this, and ours has none.
  void thread_main(
      const std::shared_ptr<torch::autograd::GraphTask>&) override {
    TORCH_INTERNAL_ASSERT(false, "ebbtide's engine runs no threads");
  }

 private:
  Engine& inner_;
};

Engine* inner_engine = nullptr;

Engine& Stub() {
  static Engine& engine = *new DelegatingEngine(*inner_engine);
  return engine;
}

}  // namespace

void InstallEngine() {
  inner_engine = &Engine::get_default_engine();
  torch::autograd::set_default_engine_stub(&Stub);
}

}  // namespace ebbtide
