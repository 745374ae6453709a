#include "hooks/planning.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/size.h"
#include "profiler/detached_thread.h"

namespace ebbtide {

void Planning::Start(const Tape& tape, MeasuredProfile measured,
                     const PlanOptions& options) {
  const uint64_t signature = tape.hash;
  // The profile alone leaves this thread; it refers to no tensor.
  TapePlan bound = BindTape(tape, measured);
  int generation = 0;
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->entries[signature] = Entry();
    generation = shared_->generation;
  }
  struct Work {
    MeasuredProfile measured;
    TapePlan bound;
  };
  auto work = std::make_shared<Work>(
      Work{.measured = std::move(measured), .bound = std::move(bound)});
  const bool started = StartDetachedThread(
      "ebbtide-plan", [shared = shared_, signature, generation, options, work] {
        absl::StatusOr<Plan> plan = MakePlan(work->measured.profile, options);
        Entry entry = {.state = State::kFailed};
        if (!plan.ok()) {
          entry.failure = std::string(plan.status().message());
        } else if (!plan->feasible) {
          entry.failure =
              absl::StrCat("no plan is known for ", FormatSize(options.budget),
                           "; ", FormatSize(plan->least_budget),
                           " would do, for ", plan->floor_witness);
        } else {
          work->bound.plan = *std::move(plan);
          DistributeActions(work->measured, &work->bound);
          entry = {
              .state = State::kReady,
              .plan = std::make_shared<const TapePlan>(std::move(work->bound))};
        }
        absl::MutexLock lock(&shared->mutex);
        if (shared->generation != generation) return;
        shared->entries[signature] = entry;
      });
  if (!started) {
    absl::MutexLock lock(&shared_->mutex);
    shared_->entries[signature] = {
        .state = State::kFailed,
        .failure = "the system refuses a thread for planning"};
  }
}

Planning::State Planning::StateOf(uint64_t signature) const {
  absl::MutexLock lock(&shared_->mutex);
  auto entry = shared_->entries.find(signature);
  return entry == shared_->entries.end() ? State::kUnknown
                                         : entry->second.state;
}

std::shared_ptr<const TapePlan> Planning::Find(uint64_t signature) const {
  absl::MutexLock lock(&shared_->mutex);
  auto entry = shared_->entries.find(signature);
  return entry == shared_->entries.end() ? nullptr : entry->second.plan;
}

void Planning::Discard(uint64_t signature) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->entries.erase(signature);
}

void Planning::DiscardAll() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->entries.clear();
  ++shared_->generation;
}

void Planning::Refuse(uint64_t signature, const std::string& why) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->entries[signature] = {.state = State::kFailed, .failure = why};
}

std::string Planning::FailureOf(uint64_t signature) const {
  absl::MutexLock lock(&shared_->mutex);
  auto entry = shared_->entries.find(signature);
  return entry == shared_->entries.end() ? "" : entry->second.failure;
}

}  // namespace ebbtide
