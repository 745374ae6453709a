#include "hooks/recorder.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mutex>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/insist.h"
#include "hooks/replay.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

// An op that is being recorded on this thread.
struct Frame {
  const at::RecordFunction* event = nullptr;
  Tape* tape = nullptr;
  int op = -1;
  bool foreign = false;
};
[[gnu::tls_model("initial-exec")]] thread_local Frame frame;
// The op whose arguments autocast is casting, or that it has called since.
[[gnu::tls_model(
    "initial-exec")]] thread_local const at::RecordFunction* autocast_op =
    nullptr;

TapeListener* listener = nullptr;
std::optional<at::CallbackHandle> handle;        // while enabled
std::optional<at::CallbackHandle> scope_handle;  // and while paused
const at::RecordFunction* pausing = nullptr;     // the optimizer's step

uint64_t Mix(uint64_t seed, uint64_t value) {
  return absl::HashOf(seed, value);
}

uint64_t HashGeometry(uint64_t seed, const Geometry& g) {
  seed = absl::HashOf(seed, absl::MakeConstSpan(g.sizes.data(), g.sizes.size()),
                      absl::MakeConstSpan(g.strides.data(), g.strides.size()));
  // Kernels choose by alignment, not by place.
  constexpr int64_t kAlignment = 64;
  const int64_t offset = g.offset * g.dtype.itemsize() % kAlignment;
  return absl::HashOf(seed, offset, g.keys.raw_repr(),
                      static_cast<int>(c10::typeMetaToScalarType(g.dtype)));
}

// The type of a number, or of one that PyTorch wrapped as a tensor, but not its
// value (OpInfo::numbers).
uint64_t HashNumber(uint64_t seed, const c10::IValue& value) {
  if (!value.isTensor()) {
    return absl::HashOf(seed, value.isDouble(), value.isInt(), value.isBool());
  }
  const at::Tensor& number = value.toTensor();
  return number.defined() ? Mix(seed, static_cast<int>(number.scalar_type()))
                          : seed;
}

uint64_t HashLiteral(uint64_t seed, const c10::IValue& value) {
  if (value.isInt()) return Mix(seed, value.toInt());
  if (value.isDouble()) return absl::HashOf(seed, value.toDouble());
  if (value.isBool()) return Mix(seed, value.toBool());
  if (value.isString()) return absl::HashOf(seed, value.toStringRef());
  if (value.isIntList()) {
    for (int64_t item : value.toIntVector()) seed = Mix(seed, item);
    return Mix(seed, 'i');
  }
  if (value.isDoubleList()) {
    for (double item : value.toDoubleVector()) seed = absl::HashOf(seed, item);
    return Mix(seed, 'd');
  }
  if (value.isBoolList()) {
    for (bool item : value.toBoolList()) seed = Mix(seed, item);
    return Mix(seed, 'b');
  }
  // A number that PyTorch wrapped as a tensor.
  if (value.isTensor()) return HashNumber(seed, value);
  return Mix(seed, value.isNone() ? 'n' : 'o');
}

// In its place, because a geometry takes longer to move than to make.
void RecordTensor(const at::Tensor& tensor, Tape* tape, TapeOp* op,
                  TensorArgument* argument) {
  if (!tensor.defined()) return;
  if (!IsPlainTensor(tensor)) {
    op->foreign = true;
    return;
  }
  argument->storage = tape->FindOrAdd(tensor);
  if (op->grad_mode) tape->HoldInput(argument->storage, tensor.storage());
  op->device = tape->storages[argument->storage].device;
  SetGeometry(tensor, &argument->geometry);
  op->signature = HashGeometry(op->signature, argument->geometry);
}

void RecordArgument(const c10::IValue& value, int index, Tape* tape,
                    TapeOp* op) {
  Argument& argument = op->arguments[index];
  argument.written = Writes(*op->info, index);
  if (value.isTensor() && value.toTensor().defined() &&
      !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) {
    argument.kind = Argument::Kind::kTensor;
    RecordTensor(value.toTensor(), tape, op, &argument.tensors.emplace_back());
    if (index == 0 && argument.written && !value.toTensor().is_inference()) {
      op->version = value.toTensor().unsafeGetTensorImpl()->version_counter();
      op->version_number = op->version->current_version();
    }
  } else if (value.isTensorList()) {
    argument.kind = Argument::Kind::kTensors;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      RecordTensor(tensor, tape, op, &argument.tensors.emplace_back());
    }
  } else if (value.isOptionalTensorList()) {
    argument.kind = Argument::Kind::kOptionalTensors;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      RecordTensor(tensor.value_or(at::Tensor()), tape, op,
                   &argument.tensors.emplace_back());
    }
  } else {
    if (value.isGenerator()) op->generator = value.toGenerator();
    if (Device::Get().is_async() && value.isDevice() &&
        value.toDevice().type() == Device::Get().type() &&
        value.toDevice().has_index()) {
      op->device = value.toDevice().index();
    }
    argument.literal = value;
    op->signature = op->info->IsNumber(index)
                        ? HashNumber(op->signature, value)
                        : HashLiteral(op->signature, value);
  }
}

bool RequiresGrad(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() && value.toTensor().requires_grad();
  }
  if (!value.isTensorList()) return false;
  for (const at::Tensor& tensor : value.toTensorVector()) {
    if (tensor.defined() && tensor.requires_grad()) return true;
  }
  return false;
}

// True if a forward pass may begin with this op.
bool MayBegin(const at::RecordFunction& event, const OpInfo& info) {
  if (!at::GradMode::is_enabled() || !info.computes) return false;
  for (const c10::IValue& value : event.inputs()) {
    if (RequiresGrad(value)) return true;
  }
  return false;
}

bool IsBelowAutograd() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(
      Device::Get().autograd_key());
}

// Autocast wraps the op, since it is enabled and has an argument of its device.
bool WillBeCast(const at::RecordFunction& event, const OpInfo& info) {
  const c10::DispatchKey autocast = Device::Get().autocast_key();
  if (!info.autocast ||
      c10::impl::tls_local_dispatch_key_set().excluded_.has(autocast)) {
    return false;
  }
  Tensors tensors;
  for (const c10::IValue& value : event.inputs()) {
    AppendTensors(value, &tensors);
  }
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.defined() && tensor.key_set().has(autocast);
  });
}

void ReportWrites(const at::RecordFunction& event,
                  void (TapeListener::*report)(const at::Tensor&)) {
  if (!listener->WantsWrites()) return;
  const OpInfo* info = FindOpInfo(event);
  if (info == nullptr || !info->mutates) return;
  const auto inputs = event.inputs();
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    if (!Writes(*info, i)) continue;
    Tensors tensors;
    AppendTensors(inputs[i], &tensors);
    for (const at::Tensor& t : tensors) {
      if (IsPlainTensor(t)) (listener->*report)(t);
    }
  }
}

std::unique_ptr<WorkScope> BeginOp(const at::RecordFunction& event,
                                   const OpInfo* info, Tape* tape) {
  const int index = tape->ops.size();
  TapeOp& op = tape->ops.emplace_back();
  op.info = info;
  if (Device::Get().is_async()) op.device = Device::Get().CurrentIndex();
  op.by_autocast = autocast_op != nullptr;
  op.grad_mode = at::GradMode::is_enabled();
  op.threads = at::get_num_threads();
  op.parallel_region = at::in_parallel_region();
  op.settings = CurrentKernelSettings(/*precision=*/!info->pointwise);
  op.signature = absl::HashOf(info, op.grad_mode, op.threads, op.settings);
  const auto inputs = event.inputs();
  op.arguments = tape->AddArguments(inputs.size());
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    RecordArgument(inputs[i], i, tape, &op);
  }
  if (info->random && op.grad_mode) {
    at::Generator generator = op.generator.defined()
                                  ? op.generator
                                  : Device::Get().DefaultGenerator(op.device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    op.random_state = Insist([&] { return generator.get_state(); });
  }
  frame = {.event = &event, .tape = tape, .op = index};
  auto scope = listener->OnOpBegin(tape, index);
  frame.foreign = tape->ops[index].foreign;
  return scope;
}

std::unique_ptr<WorkScope> Start(const at::RecordFunction& event) {
  if (torch::autograd::get_current_graph_task_id() != -1 || IsBelowAutograd()) {
    ReportWrites(event, &TapeListener::OnForeignWrite);
    return nullptr;
  }
  const OpInfo* info = FindOpInfo(event);
  if (info == nullptr) return nullptr;
  if (WillBeCast(event, *info)) autocast_op = &event;
  if (info->composite || autocast_op == &event) return nullptr;
  Tape* tape =
      listener->TapeFor([&event, info] { return MayBegin(event, *info); });
  if (tape == nullptr) {
    ReportWrites(event, &TapeListener::OnForeignWrite);
    return nullptr;
  }
  return BeginOp(event, info, tape);
}

void End(const at::RecordFunction& event) {
  const Frame ended = frame;
  frame = Frame();
  Tensors outputs;
  for (const c10::IValue& value : event.outputs()) {
    AppendTensors(value, &outputs);
  }
  listener->OnOpEnd(ended.tape, ended.op, outputs);
}

// The op runs, but is not on the tape.
void Abandon(const at::RecordFunction& event) {
  if (frame.event == &event) frame = Frame();
  ReportWrites(event, &TapeListener::OnUnseenWrite);
}

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& event) {
  if (Busy::IsSet() || (frame.event != nullptr && !frame.foreign)) {
    return nullptr;
  }
  // Inference mode looks like that too, and its writes count.
  if (IsBelowAutograd() && !c10::InferenceMode::is_enabled()) return nullptr;
  const RuntimeLock lock;
  const Busy busy;
  try {
    if (frame.event != nullptr) {
      // An inner op writes the content of a wrapped tensor.
      ReportWrites(event, &TapeListener::OnForeignWrite);
    } else {
      return Start(event);
    }
  } catch (const c10::OutOfMemoryError&) {
    // A copy of ebbtide's ran out of memory; the program's own op has not
    // allocated yet.
    Abandon(event);
  } catch (const std::exception& error) {
    Abandon(event);
    listener->OnFailure(error.what());
  }
  return nullptr;
}

void OnEnd(const at::RecordFunction& event, at::ObserverContext* scope) {
  if (scope != nullptr) static_cast<WorkScope*>(scope)->End();
  if (autocast_op == &event) autocast_op = nullptr;
  if (frame.event != &event) return;
  const RuntimeLock lock;
  const Busy busy;
  try {
    End(event);
  } catch (const std::exception& error) {
    listener->OnFailure(error.what());
  }
}

// Observes scopes that a program names by torch.profiler.record_function;
// PyTorch names the steps of its optimizers.
std::unique_ptr<at::ObserverContext> OnScopeStart(
    const at::RecordFunction& event) {
  if (!absl::StartsWith(event.name(), "Optimizer.step#")) return nullptr;
  const RuntimeLock lock;
  if (!handle || !listener->LeavesOutOptimizers()) return nullptr;
  pausing = &event;
  at::removeCallback(*std::exchange(handle, std::nullopt));
  return nullptr;
}

void OnScopeEnd(const at::RecordFunction& event, at::ObserverContext*) {
  const RuntimeLock lock;
  if (pausing != &event) return;
  pausing = nullptr;
  if (listener->WantsOps()) EnableRecorder(true);
}

}  // namespace

void InstallRecorder(TapeListener* new_listener) { listener = new_listener; }

void EnableRecorder(bool enabled) {
  if (enabled && !handle) {
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&OnStart, &OnEnd)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  if (enabled && !scope_handle) {
    scope_handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&OnScopeStart, &OnScopeEnd)
            .scopes({at::RecordScope::USER_SCOPE}));
  }
  if (enabled) return;
  for (auto* callback : {&handle, &scope_handle}) {
    if (*callback) at::removeCallback(*std::exchange(*callback, std::nullopt));
  }
}

bool IsRecorderEnabled() { return handle.has_value(); }
bool IsRecorderPaused() { return pausing != nullptr; }

std::string CurrentOpName() {
  if (frame.event != nullptr) return frame.event->name();
  const auto node = torch::autograd::get_current_node();
  return node == nullptr ? "" : node->name();
}

bool IsRecordingOp() { return frame.event != nullptr; }

int CurrentOp(const Tape* tape) { return frame.tape == tape ? frame.op : -1; }

}  // namespace ebbtide
