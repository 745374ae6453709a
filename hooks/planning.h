// Plans for signatures, made on one thread in the background.
//
// The job asks and goes on; what was made it fetches between two pairs. The
// signature asked for last comes first, since it is the most likely to come
// again. The queue is bounded: the oldest request is dropped, and may be
// repeated.
#ifndef EBBTIDE_HOOKS_PLANNING_H_
#define EBBTIDE_HOOKS_PLANNING_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "hooks/plan_run.h"
#include "planner/plan.h"

namespace ebbtide {

class Planning {
 public:
  // Requests that wait, of each kind.
  static constexpr size_t kMostWaiting = 32;

  struct Made {
    uint64_t signature = 0;
    int request = 0;
    // Cancelled: the queue was full. A request gives one or two plans.
    absl::StatusOr<std::shared_ptr<const TapePlan>> plan;
    // The plan that `plan` is a repriced copy of; nullptr: `plan` is new.
    std::shared_ptr<const TapePlan> priced;
  };

  // Wants the best plan for pairs with the signature of `tape`, and if that
  // moves bytes and `with_second`, then the best that moves none. Returns the
  // request's number, from 1 on. A plan needs `margin` less than the budget if
  // there is one. With others waiting less than options.time_limit is taken for
  // each.
  int Ask(const Tape& tape, MeasuredProfile measured,
          const PlanOptions& options, Bytes margin, bool with_second);
  // Wants to know what plans of request `number` would take by another
  // measurement. A plan that it does not fit keeps its price.
  void Price(const Tape& tape, int number, MeasuredProfile measured,
             std::vector<std::shared_ptr<const TapePlan>> plans, Bytes budget);
  // Returns the plans made since the last call. Takes no lock if there are
  // none.
  std::vector<Made> TakeMade();
  // Blocks until every request is served.
  void Wait();
  // Forgets what waits; what is being made still comes.
  void Clear();

 private:
  // The profile alone leaves the thread of the job; it refers to no tensor.
  struct Request {
    uint64_t signature = 0;
    int number = 0;
    MeasuredProfile measured;
    TapePlan bound;  // without plan and steps
    PlanOptions options;
    Bytes margin{};
    bool with_second = false;
    bool in_place = false;  // for the second plan
    // Plans to be priced; empty: one is to be made.
    std::vector<std::shared_ptr<const TapePlan>> plans;
  };
  using Queue = std::deque<std::shared_ptr<const Request>>;

  // Owned by the background thread too: the runtime is never destroyed, but a
  // forked child has no such thread.
  struct Shared {
    absl::Mutex mutex;
    bool is_running ABSL_GUARDED_BY(mutex) = false;
    // Oldest first: for prices, for a first plan, and for another that moves
    // no bytes.
    Queue prices ABSL_GUARDED_BY(mutex);
    Queue first ABSL_GUARDED_BY(mutex);
    Queue second ABSL_GUARDED_BY(mutex);
    std::vector<Made> made ABSL_GUARDED_BY(mutex);
    std::atomic<bool> has_made = false;

    void Publish(const Request& request,
                 absl::StatusOr<std::shared_ptr<const TapePlan>> plan,
                 std::shared_ptr<const TapePlan> priced = nullptr);
    // The next request and how many others wait; nullptr ends the thread.
    std::shared_ptr<const Request> Next(int* others);
    void Serve();
    void PriceAll(const Request& request);
  };
  // Has `queue` served; false where the system refuses a thread for it.
  bool Enqueue(Queue Shared::*queue, std::shared_ptr<const Request> request);
  static absl::StatusOr<std::shared_ptr<const TapePlan>> Solve(
      const Request& request, absl::Duration time_limit);

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  int asked_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PLANNING_H_
