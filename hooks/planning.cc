#include "hooks/planning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/plan.h"
#include "planner/simulate.h"
#include "planner/size.h"
#include "profiler/detached_thread.h"

namespace ebbtide {
namespace {

// The search is near its best after a fraction of its time; signatures that
// wait gain more from a plan than this one from a better plan.
constexpr int kMostHaste = 4;
// A job that is refused a plan gets none later, either.
constexpr absl::Duration kLastTry = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<const TapePlan>> Planning::Solve(
    const Request& request, absl::Duration time_limit) {
  PlanOptions options = request.options;
  options.time_limit = time_limit;
  options.budget -= request.margin;
  const Profile& profile = request.measured.profile;
  absl::StatusOr<Plan> plan = MakePlan(profile, options);
  if (plan.ok() && !plan->feasible) {
    // The plan that takes the least leaves the most of the margin.
    const Bytes least = plan->least_budget;
    const Bytes all = request.options.budget;
    options.budget = least > options.budget ? std::min(least, all) : all;
    plan = MakePlan(profile, options);
  }
  if (!plan.ok()) return plan.status();
  if (!plan->feasible) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no plan is known for ", FormatSize(options.budget), "; ",
                     FormatSize(plan->least_budget), " would do, for ",
                     plan->floor_witness));
  }
  auto simulation =
      Simulate(request.measured.profile, plan->actions, plan->budget);
  if (!simulation.ok()) return simulation.status();
  auto solved = std::make_shared<TapePlan>(request.bound);
  // A request makes up to two.
  solved->number = 2 * int64_t{request.number} + (request.in_place ? 1 : 0);
  solved->plan = *std::move(plan);
  solved->simulation = *std::move(simulation);
  for (const Action& action : solved->plan.actions) {
    if (action.what == Action::Do::kOffload) {
      solved->offloaded += profile.values[action.index].bytes;
    }
  }
  DistributeActions(request.measured, solved.get());
  return solved;
}

void Planning::Shared::Publish(
    const Request& request,
    absl::StatusOr<std::shared_ptr<const TapePlan>> plan,
    std::shared_ptr<const TapePlan> priced) {
  absl::MutexLock lock(&mutex);
  made.push_back(
      {request.signature, request.number, std::move(plan), std::move(priced)});
  has_made = true;
}

std::shared_ptr<const Planning::Request> Planning::Shared::Next(int* others) {
  absl::MutexLock lock(&mutex);
  Queue& queue = !prices.empty() ? prices : !first.empty() ? first : second;
  if (queue.empty()) {
    is_running = false;
    return nullptr;
  }
  auto next = std::move(queue.back());
  queue.pop_back();
  *others = first.size();
  return next;
}

void Planning::Shared::PriceAll(const Request& request) {
  const Profile& profile = request.measured.profile;
  for (const auto& plan : request.plans) {
    if (plan->outputs != request.bound.outputs) continue;
    // The job holds it to the peak that it was made for (Residency::Arrive);
    // what was measured of other bytes may differ a little.
    const int64_t peak = Count(plan->simulation.peak);
    auto simulation =
        Simulate(profile, plan->plan.actions, Bytes{peak + peak / 512},
                 plan->simulation.departures);
    if (!simulation.ok()) {
      simulation = Simulate(profile, plan->plan.actions, request.options.budget,
                            plan->simulation.departures);
    }
    if (!simulation.ok()) continue;
    auto priced = std::make_shared<TapePlan>(*plan);
    priced->plan.time = simulation->time;
    priced->plan.peak = simulation->peak;
    priced->base = BaseTime(profile);
    Publish(request, std::move(priced), plan);
  }
}

void Planning::Shared::Serve() {
  int others = 0;
  while (const auto request = Next(&others)) {
    if (!request->plans.empty()) {
      PriceAll(*request);
      continue;
    }
    const absl::Duration limit = request->options.time_limit;
    const int haste = std::min(1 + others, kMostHaste);
    auto plan = Solve(*request, limit / haste);
    if (!plan.ok()) plan = Solve(*request, std::max(limit, kLastTry));
    // No profile has the slowdown of compute by concurrent copies: the job
    // measures which of the two is faster (planner/contest.h).
    if (request->with_second && plan.ok() &&
        Contains((*plan)->plan, Action::Do::kOffload)) {
      auto in_place = std::make_shared<Request>(*request);
      in_place->options.allow_offload = false;
      in_place->with_second = false;
      in_place->in_place = true;
      absl::MutexLock lock(&mutex);
      if (second.size() >= kMostWaiting) second.pop_front();
      second.push_back(std::move(in_place));
    }
    // Without the second the first plan stands alone.
    if (plan.ok() || !request->in_place) Publish(*request, std::move(plan));
  }
}

int Planning::Ask(const Tape& tape, MeasuredProfile measured,
                  const PlanOptions& options, Bytes margin, bool with_second) {
  auto request = std::make_shared<Request>();
  request->signature = tape.hash;
  request->number = ++asked_;
  request->bound = BindTape(tape, measured);
  request->measured = std::move(measured);
  request->options = options;
  request->margin = margin;
  request->with_second = with_second;
  if (!Enqueue(&Shared::first, request)) {
    shared_->Publish(*request, absl::ResourceExhaustedError(
                                   "the system refuses a thread for planning"));
  }
  return request->number;
}

void Planning::Price(const Tape& tape, int number, MeasuredProfile measured,
                     std::vector<std::shared_ptr<const TapePlan>> plans,
                     Bytes budget) {
  auto request = std::make_shared<Request>();
  request->signature = tape.hash;
  request->number = number;
  request->bound = BindTape(tape, measured);
  request->measured = std::move(measured);
  request->options.budget = budget;
  request->plans = std::move(plans);
  Enqueue(&Shared::prices, std::move(request));
}

bool Planning::Enqueue(Queue Shared::*queue,
                       std::shared_ptr<const Request> request) {
  std::shared_ptr<const Request> dropped;
  bool is_running = false;
  {
    absl::MutexLock lock(&shared_->mutex);
    Queue& waiting = (*shared_).*queue;
    if (waiting.size() >= kMostWaiting) {
      dropped = std::move(waiting.front());
      waiting.pop_front();
    }
    waiting.push_back(std::move(request));
    is_running = std::exchange(shared_->is_running, true);
  }
  // Without a new price the old one stands.
  if (dropped != nullptr && dropped->plans.empty()) {
    shared_->Publish(*dropped,
                     absl::CancelledError("others were asked for since"));
  }
  if (is_running || StartDetachedThread("ebbtide-plan", [shared = shared_] {
        shared->Serve();
      })) {
    return true;
  }
  absl::MutexLock lock(&shared_->mutex);
  shared_->is_running = false;
  shared_->prices.clear();
  shared_->first.clear();
  return false;
}

std::vector<Planning::Made> Planning::TakeMade() {
  if (!shared_->has_made) return {};
  absl::MutexLock lock(&shared_->mutex);
  shared_->has_made = false;
  return std::exchange(shared_->made, {});
}

void Planning::Wait() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->mutex.Await(absl::Condition(
      +[](bool* is_running) { return !*is_running; }, &shared_->is_running));
}

void Planning::Clear() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->prices.clear();
  shared_->first.clear();
  shared_->second.clear();
}

}  // namespace ebbtide
