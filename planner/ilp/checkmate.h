// The exact oracle: Checkmate's 0/1 program (planner/ilp/model.h) on HiGHS.
//
// Proves plans of up to some 60 forward ops in minutes. HiGHS looks at the
// clock between its steps only: a program of 300 ops may take 10 s longer than
// asked for. For the program and the tests: HiGHS is linked by nothing that
// enters a training process. Thread-safe.
#ifndef EBBTIDE_PLANNER_ILP_CHECKMATE_H_
#define EBBTIDE_PLANNER_ILP_CHECKMATE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/graph.h"
#include "planner/plan.h"
#include "planner/profile.h"

namespace ebbtide {

// The fastest plan of one kind, where the time limit allows to prove it; else
// the best one found, by the program or by MakePlan, whose plan is the cutoff.
// That kind are plans that, before each stage, run ops in the order of the
// forward pass and none twice, and that offload in the forward pass only: every
// value at most once, all of it, back before anything reads it again. They do
// not offload at all where the options or a profile without lanes forbid it.
// lower_bound_time is over them. Errors: as of MakePlan; ResourceExhausted
// where the program is too large.
absl::StatusOr<Plan> SolveCheckmate(const Profile& profile,
                                    const PlanOptions& options);

// The program alone, with nothing of another planner in it.
struct IlpOptions {
  int64_t budget = 0;
  int passes = 1;        // through the forward ops before each stage
  bool offload = false;  // if the profile has lanes
  // Only plans of less overhead are of interest.
  Time cutoff = std::numeric_limits<Time>::infinity();
  absl::Duration time_limit = absl::InfiniteDuration();
};

struct IlpResult {
  bool found = false;  // a plan within budget and cutoff
  // It is the best, or there is none. Where values are moved the best solution
  // of the program need not be a plan, or not as fast: then it is not proven
  // and the bound is what that solution costs.
  bool proven = false;
  Time bound = 0;  // on the overhead of plans of so many passes
  std::vector<Action> actions;
};

absl::StatusOr<IlpResult> SolveIlp(const Graph& graph,
                                   const IlpOptions& options);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_CHECKMATE_H_
