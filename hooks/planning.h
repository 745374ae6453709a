// Plans by the signature of a pair, made in the background.
#ifndef EBBTIDE_HOOKS_PLANNING_H_
#define EBBTIDE_HOOKS_PLANNING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "hooks/plan_run.h"
#include "planner/plan.h"

namespace ebbtide {

class Planning {
 public:
  enum class State { kUnknown, kRunning, kReady, kFailed };

  // Begins to plan for pairs with the signature of `tape`, on a thread of its
  // own. Replaces what was known of that signature.
  void Start(const Tape& tape, MeasuredProfile measured,
             const PlanOptions& options);
  State StateOf(uint64_t signature) const;
  // The plan for that signature, or nullptr.
  std::shared_ptr<const TapePlan> Find(uint64_t signature) const;
  void Discard(uint64_t signature);
  // Of every signature; what is being made is dropped when it is done.
  void DiscardAll();
  // No plan is made again for that signature, because of `why`.
  void Refuse(uint64_t signature, const std::string& why);
  // Why there is no plan for it; empty if there is one, or may yet be.
  std::string FailureOf(uint64_t signature) const;

 private:
  struct Entry {
    State state = State::kRunning;
    std::shared_ptr<const TapePlan> plan;
    std::string failure;
  };
  // Owned by the background thread too: the runtime is never destroyed, but a
  // forked child has no such thread.
  struct Shared {
    absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, Entry> entries ABSL_GUARDED_BY(mutex);
    int generation ABSL_GUARDED_BY(mutex) = 0;  // how often all were discarded
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PLANNING_H_
