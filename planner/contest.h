// Chooses one of several plans for the same step: by the simulated time first,
// then by measured times.
//
// A simulated time leaves out what copies cost the compute beside them (cores,
// memory and a disk that both use; the disk's bandwidth also changes while the
// job runs). So every plan that might be the fastest is followed for a few
// steps, and the fastest of them from there on. Each further step counts: a
// plan that gets slower loses its place. Pure functions; thread-safe.
#ifndef EBBTIDE_PLANNER_CONTEST_H_
#define EBBTIDE_PLANNER_CONTEST_H_

#include <deque>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "planner/units.h"

namespace ebbtide {

// Steps after which a plan is known.
inline constexpr int kTrial = 3;

// The last steps of one kind, as they were measured.
class StepTimes {
 public:
  void Add(Time time);
  int steps() const { return steps_; }  // all that were added
  // The fastest of the last few: other programs slow some steps down, none
  // makes them faster. 0: none was added.
  Time Least() const;
  // Median of the last kRemembered times (contest.cc). 0: none was added.
  Time Median() const;

 private:
  std::deque<Time> last_;
  int steps_ = 0;
};

struct Contestant {
  Time predicted = 0;  // predicted time of the whole step
  int steps = 0;       // that have followed it
  Time least = 0;      // least time of those steps
  // Expected time of the whole step, by the times of similar plans elsewhere;
  // 0: unknown. One that is not expected to be the fastest is not tried.
  Time expected = 0;
};

// How a prediction turned out.
struct Experience {
  Time predicted = 0;
  Time least = 0;  // least time of some steps
};

// Expected time of a step with a plan of `predicted` time, by the nearest
// predictions of such plans; 0 if there are too few.
Time ExpectedTime(Time predicted, std::vector<Experience> experiences);

// The plan to follow in the next step; nullopt where there is none, or steps
// without a plan, the least of which took `demand` (0: unknown), were faster.
std::optional<int> ChoosePlan(absl::Span<const Contestant> plans, Time demand);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CONTEST_H_
