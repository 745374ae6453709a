#include "planner/pofo.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/chain_actions.h"
#include "planner/chain_simulate.h"
#include "planner/pofo_moves.h"

namespace ebbtide {
namespace {

constexpr Time kNever = std::numeric_limits<Time>::infinity();

// For callers that only ask if there is a plan.
constexpr PofoEffort kLittle = {.labels = 64, .plans = 16};

// The actions of a plan without frees, and what it moves.
struct Course {
  ChainActions actions;
  std::vector<PofoMove> moves;
};

class CourseWriter {
 public:
  CourseWriter(const SlotChain& chain, const SegmentTable& table,
               const PofoSearch& search)
      : c_(chain), table_(table), search_(search) {}

  Course Write(int end) const {
    std::vector<const PofoLabel*> path;
    for (int at = end; at >= 0; at = search_.labels()[at].parent) {
      path.push_back(&search_.labels()[at]);
    }
    std::reverse(path.begin(), path.end());
    Course course;
    AddMove(*path[0], &course);
    for (size_t n = 1; n < path.size(); ++n) {
      const int last = path[n]->node - 1;
      for (int p = path[n - 1]->node; p < last; ++p) {
        EmitForward(p, 0, &course.actions);
      }
      EmitForward(last, path[n]->way + 1, &course.actions);
      AddMove(*path[n], &course);
    }
    const PofoLabel& label = *path.back();
    table_.Emit({label.node, c_.stages, 0}, search_.Last(label).slots,
                &course.actions);
    for (size_t n = path.size() - 1; n > 0; --n) {
      const ChainCell cell = {path[n - 1]->node, path[n]->node - 1,
                              path[n]->way + 1};
      table_.Emit(cell, search_.Inner(*path[n - 1], cell).slots,
                  &course.actions);
    }
    return course;
  }

 private:
  // The last action has made the item; none, where it is x[0].
  static void AddMove(const PofoLabel& label, Course* course) {
    if (!label.offloaded) return;
    using Item = ChainAction::Item;
    const Item item = label.way < 0 ? Item::kX : Item::kXb;
    const int maker = static_cast<int>(course->actions.size()) - 1;
    course->moves.push_back({label.node, item, maker});
  }

  const SlotChain& c_;
  const SegmentTable& table_;
  const PofoSearch& search_;
};

// Keeps the faster of `best` and the plan.
void Consider(const Chain& chain, Bytes budget, ChainActions actions,
              PofoSolution* best) {
  const auto simulation = SimulateChain(chain, actions, budget);
  if (!simulation.ok() || simulation->time >= best->time) return;
  best->actions = std::move(actions);
  best->time = simulation->time;
}

}  // namespace

Pofo::Pofo(const Chain& chain, int64_t slots, Rounding rounding, int threads)
    : chain_(chain),
      // For more than any budget: what the lane out takes counts as room, too.
      slots_(CountSlots(chain, EnoughFor(chain), slots, rounding)),
      table_(slots_, /*unpinned=*/true, threads) {}

PofoLimits Pofo::Limits(Bytes budget) const {
  const auto unit = static_cast<double>(slots_.unit);
  PofoLimits limits;
  limits.room = slots_.SlotsOf(budget) + slots_.x[0];
  if (chain_.host >= Bytes{}) limits.host = Count(chain_.host) / slots_.unit;
  limits.d2h = chain_.d2h * slots_.quantum / unit;
  limits.h2d = chain_.h2d * slots_.quantum / unit;
  return limits;
}

PofoSolution Pofo::Solve(Bytes budget, const PofoEffort& effort) const {
  PofoSolution best{.time = kNever};
  if (slots_.SlotsOf(budget) < 0) return best;
  Consider(chain_, budget, table_.PlanAt(budget), &best);
  // Near the least budget the rounding to slots may hide the only plans.
  if (best.actions.empty()) {
    Consider(chain_, budget, LeastChainPlan(chain_, {.unpinned = true}), &best);
  }
  best.bound = best.time;
  if (!HasLanes(chain_)) return best;
  const PofoSearch search(slots_, table_, Limits(budget), effort.labels);
  best.bound = search.bound() * slots_.quantum;
  const CourseWriter writer(slots_, table_, search);
  for (size_t n = 0; n < std::min(effort.plans, search.ends().size()); ++n) {
    const Course course = writer.Write(search.ends()[n].label);
    Consider(chain_, budget,
             PlaceMoves(chain_, course.actions, course.moves, budget), &best);
  }
  return best;
}

Time Pofo::Estimate(Bytes budget, bool continuous) const {
  const Time alone = table_.TimeAt(budget).value_or(kNever);
  if (slots_.SlotsOf(budget) < 0 || !HasLanes(chain_)) return alone;
  PofoLimits limits = Limits(budget);
  limits.continuous = continuous;
  const PofoSearch search(slots_, table_, limits, PofoEffort{}.labels);
  if (search.ends().empty()) return alone;
  return std::min(alone, search.ends()[0].estimate * slots_.quantum);
}

Bytes Pofo::LeastBudget(Bytes feasible) const {
  int64_t low = Count(chain_.x[0]);  // there is no plan
  int64_t high = Count(feasible);
  while (high - low > std::max<int64_t>(1, high / 1000)) {
    const int64_t middle = low + (high - low) / 2;
    const bool found = !Solve(Bytes{middle}, kLittle).actions.empty();
    (found ? high : low) = middle;
  }
  return Bytes{high};
}

}  // namespace ebbtide
