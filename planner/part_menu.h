// The options of a part of the graph, each with its needs and costs: the menu
// that the merge above chooses from (the options of HiRemate). Private to the
// planner.
#ifndef EBBTIDE_PLANNER_PART_MENU_H_
#define EBBTIDE_PLANNER_PART_MENU_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "planner/part_profile.h"
#include "planner/retention.h"

namespace ebbtide {

// Bytes are above what is there whatever the part does: base_other and
// base_before of planner/part_profile.h.
struct PartOption {
  int64_t save = 0;      // from the part's forward to its backward
  int64_t forward = 0;   // peak of its forward ops
  int64_t backward = 0;  // peak of its stages
  Time time = 0;         // time of recomputation
  // A part that is not split: its draft. Else the options of its children, and
  // whether its forward is recomputed before its stages, saving nothing before.
  int draft = -1;
  std::vector<int> children;
  bool again = false;
};

struct PartMenu {
  std::vector<PartOption> options;
  std::vector<Draft> drafts;
  // Running all its ops again, saving nothing: the peak, above base_before.
  int64_t rerun_peak = 0;
};

// Removes options that others beat in bytes saved, time and the peak of the
// stages, which is the one that binds; of more than `most` the ones that differ
// most stay.
void Thin(size_t most, std::vector<PartOption>* options);

// How thorough. Evaluations for dropping value by value; limits for the graph
// solver, saves x peaks of them, and its evaluations for each; changes of
// single values; options that stay in the end.
struct MenuEffort {
  int64_t drops = 100000;
  int saves = 6;
  int peaks = 4;
  int64_t evaluations = 400;
  int64_t changes = 40000;
  size_t options = 256;
};

// Drops value by value, the best first; asks the graph solver for plans within
// several limits; then keeps or drops one value more in every option, as long
// as better ones are found. Deterministic.
PartMenu SolvePart(PartProfile* part, const MenuEffort& effort, uint64_t seed);

// So many parts are solved less thoroughly each.
constexpr size_t kManyMenus = 24;
constexpr size_t kVeryManyMenus = 96;

// The menus of all: a few seconds for a thousand of them, or as long as so many
// evaluations take. Those that are not made by the deadline have few options.
std::vector<PartMenu> SolveParts(std::vector<PartProfile>* parts, uint64_t seed,
                                 int64_t evaluations, absl::Time deadline);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PART_MENU_H_
