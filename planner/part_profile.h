// One part of a graph as a profile of its own, in a form that equal parts
// share, for the hierarchical solver. Private to the planner.
#ifndef EBBTIDE_PLANNER_PART_PROFILE_H_
#define EBBTIDE_PLANNER_PART_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/graph.h"
#include "planner/partition.h"
#include "planner/profile.h"

namespace ebbtide {

// Who uses each value, by itself or through values that cannot be kept and are
// made from it again: where a part ends matters for them.
struct Uses {
  explicit Uses(const Graph& graph);

  std::vector<int> last_reader;  // op; -1: none
  std::vector<int> first_stage;  // that needs it; stages: none
  std::vector<int> last_stage;   // -1: none
  // Whether an op or a stage outside the part uses a value of it.
  bool Outside(int v, const Part& part) const {
    return last_reader[v] >= part.end || first_stage[v] < part.first_stage ||
           last_stage[v] >= part.end_stage;
  }
};

// The ops of a part, its stages, and before them a stage 0 for all that happens
// between the part's forward and its backward: it needs the values that other
// parts use, which so are kept, and its `during` is the solver's to set. What
// comes in is made by one op in no time and has no bytes, they are its maker's;
// what comes in and cannot be kept is made by copies of the ops that make it.
// Bytes that are there all along, `other` and `before`, are left out.
struct PartProfile {
  Profile profile;
  std::vector<int> values;     // index in the graph; -1: input
  std::vector<char> own;       // of values: made by the part
  std::vector<int64_t> other;  // of ops: `other` in forward, above base_other
  int64_t base_other = 0;
  int64_t base_before = 0;
};

PartProfile MakePartProfile(const Graph& graph, const Uses& uses,
                            const Part& part);

// Equal for two parts exactly if their profiles are, names left out, and equal
// plans are equally good for both: structure, sizes, times and flags.
std::string Signature(const PartProfile& part);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PART_PROFILE_H_
