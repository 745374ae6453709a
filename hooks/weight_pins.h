// Pins the managed storages that an op reads while it runs.
#ifndef EBBTIDE_HOOKS_WEIGHT_PINS_H_
#define EBBTIDE_HOOKS_WEIGHT_PINS_H_

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ArrayRef.h>

#include <memory>
#include <vector>

#include "hooks/weights.h"

namespace ebbtide {

// Lives on one thread from before the op's kernel runs until it has ended.
// Restores offloaded storages. Ops that run meanwhile on this thread are its
// children: their storages are pinned, too, but neither begin to be managed nor
// count as a use. Nothing throws: a storage that cannot be restored stays
// offloaded, and the op raises.
class WeightPins final : public at::ObserverContext {
 public:
  // `weights` lives for ever.
  WeightPins(Weights* weights, c10::ArrayRef<c10::IValue> inputs);
  ~WeightPins() override;
  WeightPins(const WeightPins&) = delete;
  WeightPins& operator=(const WeightPins&) = delete;

  // The op has ended well, and has made these.
  void NoteOutputs(c10::ArrayRef<c10::IValue> outputs);

 private:
  bool IsOfProgram() const;
  void Release();

  Weights& weights_;
  std::vector<std::shared_ptr<Weight>> held_;
};

// The storages among the values, also in lists, that are large enough to be
// managed, on the device that is.
std::vector<c10::Storage> LargeStorages(c10::ArrayRef<c10::IValue> values);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_WEIGHT_PINS_H_
