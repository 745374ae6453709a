// Choosing one option for each part of a row of parts: exact for what the
// options say of themselves, by dynamic programming over bytes saved and time.
//
// Parts save in forward order and are done with in backward order, so while one
// runs, either way, what those before it save is there and what those behind it
// save is not. If one of two choices for the parts so far has fewer bytes and
// less time it is better whatever follows. Private to the planner.
#ifndef EBBTIDE_PLANNER_PART_MERGE_H_
#define EBBTIDE_PLANNER_PART_MERGE_H_

#include <cstdint>
#include <vector>

#include "planner/part_menu.h"

namespace ebbtide {

// In forward order. The bases are above those of the row.
struct RowPart {
  const PartMenu* menu = nullptr;
  int64_t base_other = 0;
  int64_t base_before = 0;
};

struct RowLimits {
  int64_t forward = 0;
  int64_t backward = 0;
  // Limit on the bytes while the row's forward is recomputed; negative: it is
  // not.
  int64_t again = -1;
};

// The choices within the limits that no other beats in bytes saved and time,
// `most` of them if there are more. Empty: nothing fits.
std::vector<PartOption> MergeRow(const std::vector<RowPart>& row,
                                 const RowLimits& limits, size_t most);

// The facts of a row that make it a part.
struct RowFacts {
  int64_t outside_save = 0;  // values that are kept whatever it does
  Time again_time = 0;       // time to recompute its forward
  int64_t first_before = 0;  // `before` of its first stage, above the base
};

// How thorough: limits on the peak, choices that are carried along, options
// that stay.
struct MergeEffort {
  int limits = 10;
  size_t front = 256;
  size_t options = 128;
};

PartMenu MergeMenu(const std::vector<RowPart>& row, const RowFacts& facts,
                   const MergeEffort& effort);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PART_MERGE_H_
