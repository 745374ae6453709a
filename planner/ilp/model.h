// Checkmate's 0/1 program (Jain et al., MLSys 2020, arXiv 1910.02653, section
// 4) for a profile: the ops recomputed before each stage, and the values that
// stay from one stage to the next. Private to planner/ilp.
//
// Passes. Before each stage the forward ops are gone through once, in their
// order, or `passes` times; segment g is pass g % passes before stage
// g / passes, and a stage runs at the end of its last segment. More passes
// admit more plans: other orders, and an op run twice before one stage.
//
// Variables, of segment g:
//   stay[g][v]   v is there when it begins (S of the paper)
//   run[g][i]    op i is recomputed (R)
//   made[g][v]   v is made by that run, having been absent
//   left[g][v,k] v has left after op k: the op that makes it or one that reads
//                it
//   live[g][k]   bytes of values while op k runs (U)
//   later[t][i]  op i is recomputed from stage t on
// A profile with lanes whose values may be offloaded adds:
//   off[v]       v goes to the host after the forward op that releases it
//   gone[k][v]   all of it has left before instant k, a forward op or a stage
//   asked[g][v]  its copy back starts in segment g or before; it counts from
//                the stage on, or from the next segment
//   back[g][v]   it has come back to be read in segment g or before
//   drop[g][v]   it comes back in segment g and leaves before the stage
//   wait[k]      time that instant k waits for copies, with its price
//   delay[k]     all waiting and recomputation before it
// and shares of its copies that have been made by each instant, which a lane's
// rate and the delays bound.
// Rows for `live` exist for every op that may run. Where it does not, the row
// asks for no more than the next one that does, or the stage: a value that is
// there is there for one of them. So the rows are exact: the peak of a solution
// is the one that planner/simulate.h counts.
//
// With offload the program is a relaxation: a lane may change between values
// halfway, the whole recomputation before a stage is time for the restores
// requested before it, and bytes that come or go during the recomputation count
// as gone already and as not requested yet. Its optimum bounds every plan that
// offloads in the forward pass only. A value need not be asked for before it
// has left: the lane could not begin any earlier.
//
// Differences to the paper: the forward pass runs once and is one row per op;
// ops have several outputs; values are held by the script until they are
// released; and rows about `later` and about each stage's end, which follow
// from the others for whole numbers only, make the relaxation tight.
#ifndef EBBTIDE_PLANNER_ILP_MODEL_H_
#define EBBTIDE_PLANNER_ILP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/graph.h"
#include "planner/ilp/mip.h"
#include "planner/ilp/schedule.h"

namespace ebbtide {

struct Model {
  Mip mip;
  int passes = 1;
  // By segment; one more for the end. kNoColumn: never.
  std::vector<std::vector<int>> stay;   // by value
  std::vector<std::vector<int>> run;    // by op
  std::vector<int> off;                 // by value
  std::vector<std::vector<int>> gone;   // by instant, by value
  std::vector<std::vector<int>> asked;  // by segment, by value
  std::vector<std::vector<int>> back;   // likewise
  // By instant: its time but for the delay, in units, and that variable. Empty
  // where nothing can be moved.
  std::vector<double> start;
  std::vector<int> delay;
  double time_unit = 1;     // unit of the objective
  bool impossible = false;  // something exceeds the budget under every plan
};

// ResourceExhausted where the program would be too large for a solver to end in
// time, in memory that a machine has: from some 400 forward ops on, with moves
// from some 220 on.
absl::Status CheckSize(const Graph& graph, int passes, bool offload);

// The graph has passed CheckSize.
Model BuildModel(const Graph& graph, int64_t budget, int passes, bool offload);

Schedule Decode(const Model& model, const std::vector<double>& values);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_MODEL_H_
