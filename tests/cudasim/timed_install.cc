// Wraps the device kernels of all operators, and says how long they take.
#include "tests/cudasim/timed.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/autograd/function.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cudasim/control.h"
#include "tests/cudasim/op_times.h"
#include "tests/cudasim/timed_op.h"

namespace cudasim {
namespace {

using torch::jit::Stack;

// Inside a kernel that has its time.
thread_local int depth = 0;

struct OpCost {
  double ns = 0;
  unsigned kernels = 0;  // 0: it has not run yet
};

// The costs of ops, and the log. Never destroyed: threads outlive main.
class Costs {
 public:
  static Costs& Get() {
    static auto* const costs = new Costs;
    return *costs;
  }

  void Use(Roof roof, std::optional<OpTimes> table) {
    roof_ = roof;
    table_ = std::move(table);
  }

  bool Log(const char* path) {
    log_ = fopen(path, "w");
    return log_ != nullptr;
  }

  OpCost Find(uint64_t hash, const c10::OperatorHandle& op, Values inputs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = costs_.find(hash);
    if (known != costs_.end()) return known->second;
    return {Estimate(op, inputs, {})};
  }

  void Note(uint64_t hash, const c10::OperatorHandle& op, Values inputs,
            Values outputs, unsigned kernels) {
    const std::lock_guard<std::mutex> lock(mutex_);
    OpCost& cost = costs_[hash];
    if (cost.kernels == 0) cost = {Estimate(op, inputs, outputs), kernels};
    if (log_ == nullptr) return;
    const auto node = torch::autograd::get_current_node();
    const std::string name =
        node == nullptr
            ? ""
            : node->name() + "@" + std::to_string(node->sequence_nr());
    fprintf(log_, "%s\t%s\t%.0f\t%u\n", name.c_str(), OpKey(op, inputs).c_str(),
            Roofline(roof_, op, inputs, outputs), kernels);
    fflush(log_);
  }

 private:
  double Estimate(const c10::OperatorHandle& op, Values inputs,
                  Values outputs) {
    if (table_) {
      if (const auto known = table_->Find(OpKey(op, inputs))) return *known;
    }
    // The shortest kernels of the traces.
    constexpr double kLeastNs = 2500;
    return kLeastNs + Roofline(roof_, op, inputs, outputs);
  }

  std::mutex mutex_;
  Roof roof_;
  std::optional<OpTimes> table_;
  std::unordered_map<uint64_t, OpCost> costs_;
  FILE* log_ = nullptr;
};

class Pause {
 public:
  Pause() { cudasim_pause_begin(); }
  ~Pause() { cudasim_pause_end(); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

class Running {
 public:
  explicit Running(const OpCost& cost) {
    ++depth;
    cudasim_op_begin(cost.ns, cost.kernels);
  }
  ~Running() {
    --depth;
    if (!ended_) cudasim_op_end();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  unsigned End() {
    ended_ = true;
    return cudasim_op_end();
  }

 private:
  bool ended_ = false;
};

// In the place of an operator's kernel for the device.
class Kernel : public c10::OperatorKernel {
 public:
  explicit Kernel(c10::SafeKernelFunction original)
      : original_(std::move(original)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) {
    if (depth > 0) {
      original_.callBoxed(op, keys, stack);
      return;
    }
    std::optional<Pause> pause(std::in_place);
    const Values given = Last(*stack, op.schema().arguments().size());
    const uint64_t hash = OpHash(op, given);
    const OpCost cost = Costs::Get().Find(hash, op, given);
    // The kernel takes them from the stack.
    const std::vector<c10::IValue> inputs = given.vec();
    unsigned kernels = 0;
    {
      Running running(cost);
      pause.reset();
      original_.callBoxed(op, keys, stack);
      pause.emplace();
      kernels = running.End();
    }
    if (kernels == 0) return;
    Costs::Get().Note(hash, op, inputs,
                      Last(*stack, op.schema().returns().size()), kernels);
  }

 private:
  const c10::SafeKernelFunction original_;
};

void Wrap(const c10::OperatorHandle& op) {
  constexpr auto kKey = c10::DispatchKey::CUDA;
  if (!op.hasComputedKernelForDispatchKey(kKey)) return;
  // Autograd looks into it; a kernel for the device would forbid that.
  if (!op.hasKernelForDispatchKey(kKey) &&
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return;
  }
  auto kernel =
      std::make_unique<Kernel>(op.getComputedKernelForDispatchKey(kKey));
  Replace(op, std::move(kernel));
}

}  // namespace
}  // namespace cudasim

extern "C" {

const char* cudasim_timed_install(const char* table) {
  using cudasim::OpTimes;
  static auto* const error = new std::string;
  const cudasim::Roof roof = {cudasim_product_flops(), cudasim_memory_bytes()};
  if (roof.flops == 0) return "timed mode needs CUDASIM_DEVICE_FILE";
  std::optional<OpTimes> times;
  if (table != nullptr) {
    times = OpTimes::Read(table, error);
    if (!times) return error->c_str();
  }
  cudasim::Costs::Get().Use(roof, std::move(times));
  cudasim::WrapAll(cudasim::Wrap);
  return nullptr;
}

int cudasim_timed_log(const char* path) {
  return cudasim::Costs::Get().Log(path) ? 0 : errno;
}

}  // extern "C"
