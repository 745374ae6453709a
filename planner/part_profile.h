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
#include "planner/retention.h"
#include "planner/uses.h"

namespace ebbtide {

// The ops of a part, its stages, and before them a stage 0 for all that happens
// between the part's forward and its backward: it needs the values that other
// parts use, which so are kept, and its `during` is the solver's to set. A
// value from outside is made by one op in no time and has no bytes, they are
// its maker's; one that cannot be kept is made by copies of the ops that make
// it. Bytes that are there all along, `other` and `before`, are left out.
struct PartProfile {
  Profile profile;
  std::vector<int> values;     // index in the graph; -1: input
  std::vector<char> own;       // by value: made by the part
  std::vector<int64_t> other;  // by op: `other` in forward, above base_other
  int64_t base_other = 0;
  int64_t base_before = 0;
};

PartProfile MakePartProfile(const Graph& graph, const Uses& uses,
                            const Part& part);

// Equal for two parts exactly if their profiles are, names left out, and equal
// plans are equally good for both: structure, sizes, times and flags.
std::string Signature(const PartProfile& part);

// The facts in which a part differs from equal ones.
struct PartFacts {
  int menu = -1;  // the number of its profile among the distinct ones
  int64_t base_other = 0;
  int64_t base_before = 0;
  std::vector<int> values;  // graph indices of the draft's values
  std::vector<char> own;
};

// The profiles of the parts that are not split, of equal ones once. `facts` are
// of all parts; those of split ones stay as they are.
std::vector<PartProfile> DistinctProfiles(const Graph& graph, const Uses& uses,
                                          const std::vector<Part>& parts,
                                          std::vector<PartFacts>* facts);

// Writes what a draft of the part's own says of the time of its stages.
void WriteStages(const Graph& graph, const Part& part, const PartFacts& facts,
                 const Retention& own, Draft* draft);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PART_PROFILE_H_
