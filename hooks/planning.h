// Plans by the signature of a pair, made in the background.
#ifndef EBBTIDE_HOOKS_PLANNING_H_
#define EBBTIDE_HOOKS_PLANNING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "hooks/plan_run.h"
#include "planner/plan.h"

namespace ebbtide {

class Planning {
 public:
  enum class State { kUnknown, kRunning, kReady, kFailed };

  // Begins to plan for pairs with the signature of `tape`, on a thread of its
  // own: the best plan, and if that moves bytes, then the best that moves none.
  // Replaces what was known of that signature.
  void Start(const Tape& tape, MeasuredProfile measured,
             const PlanOptions& options);
  // kReady: there is a plan, and there may yet be more.
  State StateOf(uint64_t signature) const;
  // The plans for that signature, in the order in which they were made.
  std::vector<std::shared_ptr<const TapePlan>> PlansFor(
      uint64_t signature) const;
  void Discard(uint64_t signature);
  // Of every signature; what is being made is dropped when it is done.
  void DiscardAll();
  // No plan is made again for that signature, because of `why`.
  void Refuse(uint64_t signature, const std::string& why);
  // Why there is no plan for it; empty if there is one, or may yet be.
  std::string FailureOf(uint64_t signature) const;

 private:
  struct Entry {
    int start = 0;  // which call of Start it is of
    State state = State::kRunning;
    std::vector<std::shared_ptr<const TapePlan>> plans;
    std::string failure;
  };
  // Owned by the background thread too: the runtime is never destroyed, but a
  // forked child has no such thread.
  struct Shared {
    absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, Entry> entries ABSL_GUARDED_BY(mutex);
    int starts ABSL_GUARDED_BY(mutex) = 0;

    void Publish(uint64_t signature, int start,
                 const absl::StatusOr<std::shared_ptr<const TapePlan>>& plan);
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PLANNING_H_
