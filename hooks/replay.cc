#include "hooks/replay.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>

#include "hooks/device.h"
#include "hooks/insist.h"

namespace ebbtide {
namespace {

constexpr int kRunningMean = 3;
constexpr int kRunningVar = 4;
constexpr int kTraining = 5;

bool IsTrainingBatchNorm(const TapeOp& op) {
  if (!op.info->batch_norm) return false;
  const c10::IValue& training = op.arguments[kTraining].literal;
  return training.isBool() && training.toBool();
}

const c10::DispatchKeySet kExcluded =
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                         c10::DispatchKey::Functionalize});

// Puts the op's generator into the state it had and back on destruction.
class GeneratorState {
 public:
  explicit GeneratorState(const TapeOp& op) {
    if (!op.random_state.defined()) return;
    generator_ = op.generator.defined()
                     ? op.generator
                     : Device::Get().DefaultGenerator(op.device);
    std::lock_guard<std::mutex> lock(generator_.mutex());
    saved_ = Insist([&] { return generator_.get_state(); });
    Device::Get().SetState(op.random_state, &generator_);
  }
  ~GeneratorState() {
    if (!saved_.defined()) return;
    std::lock_guard<std::mutex> lock(generator_.mutex());
    Device::Get().SetState(saved_, &generator_);
  }
  GeneratorState(const GeneratorState&) = delete;
  GeneratorState& operator=(const GeneratorState&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
};

// Kernels split their work by the number of threads, and sums by the split.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : outer_(at::get_num_threads()) {
    if (threads != outer_) at::set_num_threads(threads);
  }
  ~ThreadCount() {
    if (at::get_num_threads() != outer_) at::set_num_threads(outer_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int outer_;
};

at::Tensor TensorFor(const TensorArgument& argument,
                     const StorageLookup& lookup) {
  if (argument.storage < 0) return at::Tensor();
  return MakeTensor(lookup(argument.storage), argument.geometry);
}

c10::IValue ValueFor(const TapeOp& op, int index, const StorageLookup& lookup) {
  const Argument& argument = op.arguments[index];
  if (op.info->batch_norm && IsTrainingBatchNorm(op) &&
      (index == kRunningMean || index == kRunningVar)) {
    return c10::IValue();
  }
  switch (argument.kind) {
    case Argument::Kind::kLiteral:
      return argument.literal;
    case Argument::Kind::kTensor:
      return TensorFor(argument.tensors[0], lookup);
    case Argument::Kind::kTensors: {
      c10::List<at::Tensor> list;
      for (const auto& t : argument.tensors) {
        list.push_back(TensorFor(t, lookup));
      }
      return list;
    }
    case Argument::Kind::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : argument.tensors) {
        if (t.storage < 0) {
          list.push_back(std::nullopt);
        } else {
          list.push_back(TensorFor(t, lookup));
        }
      }
      return list;
    }
  }
  return c10::IValue();
}

// Where it ran.
void Call(const TapeOp& op, torch::jit::Stack* stack) {
  if (!Device::Get().is_async()) return op.info->handle.callBoxed(stack);
  const c10::DeviceGuard there(c10::Device(
      Device::Get().type(), static_cast<c10::DeviceIndex>(op.device)));
  op.info->handle.callBoxed(stack);
}

}  // namespace

ReplayScope::ReplayScope() : exclude_(kExcluded) {}

bool ReadsArgument(const TapeOp& op, int index) {
  if (index == 0 && op.fresh_self) return false;
  return !((index == kRunningMean || index == kRunningVar) &&
           IsTrainingBatchNorm(op));
}

void AppendTensors(const c10::IValue& value, Tensors* tensors) {
  if (value.isTensor()) {
    tensors->push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) tensors->push_back(t);
  } else {
    tensors->emplace_back();
  }
}

Tensors RunAgain(const TapeOp& op, const StorageLookup& lookup) {
  torch::jit::Stack stack;
  stack.reserve(op.arguments.size());
  for (int i = 0; i < static_cast<int>(op.arguments.size()); ++i) {
    stack.push_back(ValueFor(op, i, lookup));
  }
  {
    const GeneratorState generator(op);
    const ThreadCount threads(op.threads);
    const KernelSettingsScope settings(op.settings);
    // Kernels read grad mode: some choose another algorithm without it.
    const at::AutoGradMode grad_mode(op.grad_mode);
    Call(op, &stack);
  }
  Tensors outputs;
  for (const c10::IValue& value : stack) AppendTensors(value, &outputs);
  return outputs;
}

}  // namespace ebbtide
