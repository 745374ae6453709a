#include "hooks/planning.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "planner/size.h"
#include "profiler/detached_thread.h"

namespace ebbtide {
namespace {

// The profile alone leaves the thread of the job; it refers to no tensor.
struct Work {
  MeasuredProfile measured;
  TapePlan bound;  // without plan and steps
};

absl::StatusOr<std::shared_ptr<const TapePlan>> Solve(
    const Work& work, const PlanOptions& options) {
  absl::StatusOr<Plan> plan = MakePlan(work.measured.profile, options);
  if (!plan.ok()) return plan.status();
  if (!plan->feasible) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no plan is known for ", FormatSize(options.budget), "; ",
                     FormatSize(plan->least_budget), " would do, for ",
                     plan->floor_witness));
  }
  auto solved = std::make_shared<TapePlan>(work.bound);
  solved->plan = *std::move(plan);
  DistributeActions(work.measured, solved.get());
  return solved;
}

}  // namespace

// Adds a plan to those for its signature, or says that there is none; nothing
// if they have been discarded since.
void Planning::Shared::Publish(
    uint64_t signature, int start,
    const absl::StatusOr<std::shared_ptr<const TapePlan>>& plan) {
  absl::MutexLock lock(&mutex);
  auto found = entries.find(signature);
  if (found == entries.end() || found->second.start != start) return;
  Entry& entry = found->second;
  if (plan.ok()) {
    entry.state = State::kReady;
    entry.plans.push_back(*plan);
  } else {
    entry.state = State::kFailed;
    entry.failure = std::string(plan.status().message());
  }
}

void Planning::Start(const Tape& tape, MeasuredProfile measured,
                     const PlanOptions& options) {
  const uint64_t signature = tape.hash;
  TapePlan bound = BindTape(tape, measured);
  int start = 0;
  {
    absl::MutexLock lock(&shared_->mutex);
    start = ++shared_->starts;
    shared_->entries[signature] = {.start = start};
  }
  auto work = std::make_shared<Work>(
      Work{.measured = std::move(measured), .bound = std::move(bound)});
  const bool started = StartDetachedThread(
      "ebbtide-plan", [shared = shared_, signature, start, options, work] {
        const auto best = Solve(*work, options);
        shared->Publish(signature, start, best);
        if (!best.ok()) return;
        if (!Contains((*best)->plan, Action::Do::kOffload)) return;
        // What copies cost the compute beside them is in no profile: the job
        // finds out which of the two is faster (planner/contest.h).
        PlanOptions in_place = options;
        in_place.allow_offload = false;
        const auto other = Solve(*work, in_place);
        if (other.ok()) shared->Publish(signature, start, other);
      });
  if (!started) {
    shared_->Publish(signature, start,
                     absl::ResourceExhaustedError(
                         "the system refuses a thread for planning"));
  }
}

Planning::State Planning::StateOf(uint64_t signature) const {
  absl::MutexLock lock(&shared_->mutex);
  auto entry = shared_->entries.find(signature);
  return entry == shared_->entries.end() ? State::kUnknown
                                         : entry->second.state;
}

std::vector<std::shared_ptr<const TapePlan>> Planning::PlansFor(
    uint64_t signature) const {
  absl::MutexLock lock(&shared_->mutex);
  auto entry = shared_->entries.find(signature);
  if (entry == shared_->entries.end()) return {};
  return entry->second.plans;
}

void Planning::Discard(uint64_t signature) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->entries.erase(signature);
}

void Planning::DiscardAll() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->entries.clear();
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
