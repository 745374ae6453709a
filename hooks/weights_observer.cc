#include "hooks/weights_observer.h"

#include <ATen/record_function.h>

#include <exception>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/runtime_lock.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

Weights* weights = nullptr;

// Ops that this thread is inside.
[[gnu::tls_model("initial-exec")]] thread_local int depth = 0;

// Of an op, while it runs.
class Pins final : public at::ObserverContext {
 public:
  Pins() { ++depth; }
  // Only when its op has ended, on the thread of that.
  ~Pins() override { --depth; }

  std::vector<std::shared_ptr<Weight>> held;
};

// What tensors and storages an argument or a result is made of.
struct Parts {
  std::vector<at::Tensor> tensors;
  std::vector<c10::Storage> storages;
};

bool IsLarge(const c10::Storage& storage) {
  if (!storage || storage.device_type() != Device::Get().type()) return false;
  const c10::SymInt bytes = storage.sym_nbytes();
  const auto known = bytes.maybe_as_int();
  return known && static_cast<size_t>(*known) >= LeastManaged();
}

void Append(const c10::IValue& value, Parts* parts) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (!IsLarge(tensor.storage())) return;
    parts->tensors.push_back(tensor);
    parts->storages.push_back(tensor.storage());
  } else if (value.isStorage()) {
    const c10::Storage storage = value.toStorage();
    if (IsLarge(storage)) parts->storages.push_back(storage);
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) Append(t, parts);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) Append(item, parts);
  }
}

// On the CPU these are loops over ops on single tensors, each of which is
// observed: held at once, the lists could be more than there is room for.
bool IsLoopOverOps(const at::RecordFunction& event) {
  return absl::StartsWith(event.name(), "aten::_foreach_");
}

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& event) {
  if (IsLoopOverOps(event)) return nullptr;
  auto pins = std::make_unique<Pins>();
  try {
    Parts parts;
    for (const c10::IValue& value : event.inputs()) Append(value, &parts);
    if (parts.storages.empty()) return pins;
    const bool is_of_program = depth == 1 && !Busy::IsSet();
    const RuntimeLock lock;
    const Busy busy;
    if (is_of_program) {
      for (const at::Tensor& tensor : parts.tensors) weights->Note(tensor);
    }
    for (const c10::Storage& storage : parts.storages) {
      if (auto weight = weights->Pin(storage)) pins->held.push_back(weight);
    }
    if (is_of_program) weights->Prefetch();
  } catch (const std::exception& error) {
    // What could not be brought back is still away: the op raises.
    const RuntimeLock lock;
    weights->Stop(error.what());
  }
  return pins;
}

void OnEnd(const at::RecordFunction& event, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto* pins = static_cast<Pins*>(context);
  try {
    Parts made;
    if (depth == 1 && !Busy::IsSet()) {
      for (const c10::IValue& value : event.outputs()) Append(value, &made);
    }
    if (made.tensors.empty() && pins->held.empty()) return;
    const RuntimeLock lock;
    const Busy busy;
    for (const auto& weight : pins->held) weights->Unpin(weight.get());
    pins->held.clear();
    for (const at::Tensor& tensor : made.tensors) weights->Note(tensor);
  } catch (const std::exception& error) {
    const RuntimeLock lock;
    weights->Stop(error.what());
  }
}

}  // namespace

void InstallWeightObserver(Weights* new_weights) {
  weights = new_weights;
  at::addGlobalCallback(at::RecordFunctionCallback(&OnStart, &OnEnd)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

}  // namespace ebbtide
