#include "hooks/weight_pins.h"

#include <exception>
#include <utility>

#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/runtime_lock.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

// Ops that this thread is inside.
[[gnu::tls_model("initial-exec")]] thread_local int depth = 0;

// Tensors and storages inside values.
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
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) Append(item, parts);
  }
}

Parts PartsOf(c10::ArrayRef<c10::IValue> values) {
  Parts parts;
  for (const c10::IValue& value : values) Append(value, &parts);
  return parts;
}

// `work`, where nothing may leave; the runtime's lock is held.
template <typename Work>
void Guarded(Weights* weights, Work work) {
  try {
    const RuntimeLock lock;
    const Busy busy;
    work();
  } catch (const c10::Error& error) {
    const RuntimeLock lock;
    weights->Stop(error.what_without_backtrace());
  } catch (const std::exception& error) {
    const RuntimeLock lock;
    weights->Stop(error.what());
  }
}

}  // namespace

std::vector<c10::Storage> LargeStorages(c10::ArrayRef<c10::IValue> values) {
  return PartsOf(values).storages;
}

WeightPins::WeightPins(Weights* weights, c10::ArrayRef<c10::IValue> inputs)
    : weights_(*weights) {
  ++depth;
  const Parts parts = PartsOf(inputs);
  if (parts.storages.empty()) return;
  const bool is_of_program = IsOfProgram();
  Guarded(&weights_, [&] {
    if (is_of_program) {
      for (const at::Tensor& tensor : parts.tensors) weights_.Note(tensor);
    }
    std::vector<size_t> sizes;
    for (const c10::Storage& storage : parts.storages) {
      auto weight = weights_.Pin(storage);
      if (weight == nullptr) continue;
      if (weight->pins == 1) sizes.push_back(storage.nbytes());
      held_.push_back(std::move(weight));
    }
    if (!is_of_program) return;
    weights_.Reserve(Device::IndexOf(parts.storages[0]), sizes);
    weights_.Prefetch();
  });
}

WeightPins::~WeightPins() {
  if (!held_.empty()) {
    Guarded(&weights_, [this] { Release(); });
  }
  --depth;
}

void WeightPins::NoteOutputs(c10::ArrayRef<c10::IValue> outputs) {
  if (!IsOfProgram()) return;
  const Parts made = PartsOf(outputs);
  if (made.tensors.empty()) return;
  Guarded(&weights_, [&] {
    for (const at::Tensor& tensor : made.tensors) weights_.Note(tensor);
  });
}

bool WeightPins::IsOfProgram() const { return depth == 1 && !Busy::IsSet(); }

void WeightPins::Release() {
  for (const auto& weight : held_) weights_.Unpin(weight.get());
  held_.clear();
}

}  // namespace ebbtide
