// Rules of the validator of cycles that concern the text of a plan alone.
// Private to planner/cycle_validate.cc, which shares no code with others.
#ifndef EBBTIDE_PLANNER_CYCLE_VALIDATE_RULES_H_
#define EBBTIDE_PLANNER_CYCLE_VALIDATE_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

template <class... Args>
absl::Status BrokenRule(int position, const Args&... args) {
  return absl::FailedPreconditionError(
      absl::StrCat("actions[", position, "]: ", args...));
}

// Positions count in `actions`, which are carried out again and again.
class CycleRules {
 public:
  CycleRules(const Chain& chain, absl::Span<const ChainAction> actions)
      : c_(chain),
        actions_(actions),
        stages_(Stages(chain)),
        size_(static_cast<int>(actions.size())) {}

  static bool IsWeight(ChainAction::Item item) {
    return item > ChainAction::Item::kXb;
  }
  static bool Computes(const ChainAction& action);
  static std::string NameOf(const ChainAction& action);

  // Weights are there, the rest is a plan for a chain, and the host has room
  // for all that ever moves.
  absl::Status Check() const;

  bool IsUpdatedOnHost(int weight) const;
  // The backward that makes the gradient, and the one that updates the weight.
  bool IsFirst(int weight, const ChainAction& action) const;
  bool IsLast(int weight, const ChainAction& action) const;
  // A gradient is read by each backward of its weight.
  bool Reads(const ChainAction& action, ChainAction::Item item,
             int index) const;
  // On the device; of a weight or its state.
  bool Writes(const ChainAction& action, int weight) const;
  // By an action from position k on, before it is brought back, freed or made.
  bool IsReadFrom(int k, ChainAction::Item item, int index) const;

  // Least time of a step by what lanes and host have to do in it.
  Time LeastTime() const;

 private:
  absl::Status CheckIndices() const;
  absl::Status CheckChainRules() const;
  absl::Status CheckHost() const;
  bool HasStage(int weight, int stage) const;
  Bytes BytesOf(ChainAction::Item item, int index) const;
  Time Busy(ChainAction::Do what, double bandwidth) const;

  const Chain& c_;
  const absl::Span<const ChainAction> actions_;
  const int stages_;
  const int size_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_VALIDATE_RULES_H_
