#include "hooks/weights_observer.h"

#include <ATen/record_function.h>

#include <memory>

#include "hooks/list_ops.h"
#include "hooks/weight_pins.h"

namespace ebbtide {
namespace {

Weights* weights = nullptr;

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& event) {
  // Scopes that the engine and people put around ops are none.
  const auto op = event.operator_name();
  if (!op || IsSliced(*op)) return nullptr;
  return std::make_unique<WeightPins>(weights, event.inputs());
}

void OnEnd(const at::RecordFunction& event, at::ObserverContext* context) {
  if (context == nullptr) return;
  static_cast<WeightPins*>(context)->NoteOutputs(event.outputs());
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
