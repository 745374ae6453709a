// `Margins` is how much of the budget the plans for one kind of step leave
// free.
//
// A plan counts live bytes. Parts of pages and of segments lie beside them, and
// the layout of planned addresses may take more than is alive. The first plan
// leaves what the last step wasted. From then on steps that follow a plan show
// what it takes:
//   - a step that was short of memory makes the next plan smaller, by a 32nd
//     part of the budget each time, as long as plans become smaller by that;
//   - a step that was served from planned addresses and leaves more than a
//     100th part of the budget unused makes the next plan larger by that. Where
//     the larger plan is short of memory, the margin before it holds for good.
#ifndef EBBTIDE_HOOKS_MARGIN_H_
#define EBBTIDE_HOOKS_MARGIN_H_

#include <optional>

#include "planner/units.h"

namespace ebbtide {

struct Margins {
  Bytes now{};                // of the last plans; 0: none were made
  std::optional<Bytes> held;  // before plans were made larger
  Bytes shrunk_from{};        // peak of the plan last made smaller, or 0
  int changes = 0;

  static constexpr int kMostChanges = 8;
};

// What a plan leaves at least, for what it does not foresee.
Bytes LeastMargin(Bytes budget);
// `waste`: what the allocator held at the last step's peak beyond live bytes.
Bytes FirstMargin(Bytes budget, Bytes waste);

// A step followed a plan of that peak, and was short of memory. True if the
// margin has grown, so that another plan is to be made.
bool Grow(Bytes budget, Bytes peak, Margins* margins);
// A step followed a plan of that peak, and took `used` bytes of the budget.
// True if the margin has shrunk.
bool Shrink(Bytes budget, Bytes peak, Bytes used, Margins* margins);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_MARGIN_H_
