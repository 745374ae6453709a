#include "planner/place.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/place_greedy.h"
#include "planner/place_search.h"

namespace ebbtide {
namespace {

// Comparisons that the portfolio may take: some 0.3 s for 20,000 buffers and
// 2 s for 100,000. Few buffers have every order tried.
constexpr int64_t kWorkPerBuffer = 2500;
constexpr int64_t kLeastWork = 40'000'000;

absl::Status CheckFixed(const PlaceProblem& problem) {
  std::vector<int> fixed;
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    if (problem.buffers[id].offset) fixed.push_back(id);
  }
  std::sort(fixed.begin(), fixed.end(), [&problem](int a, int b) {
    return *problem.buffers[a].offset < *problem.buffers[b].offset;
  });
  for (size_t i = 0; i < fixed.size(); ++i) {
    const Buffer& a = problem.buffers[fixed[i]];
    for (size_t j = i + 1; j < fixed.size(); ++j) {
      const Buffer& b = problem.buffers[fixed[j]];
      if (*b.offset >= *a.offset + a.size) break;
      if (!Meet(Pieces(a), Pieces(b))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("buffers ", std::min(fixed[i], fixed[j]), " and ",
                       std::max(fixed[i], fixed[j]),
                       ": expected fixed offsets that do not overlap, got ",
                       Count(*a.offset), " and ", Count(*b.offset)));
    }
  }
  return absl::OkStatus();
}

void PlaceGreedily(const PlaceProblem& problem, Bytes enough, Placed* best) {
  GreedyPlacer placer(problem);
  const int64_t limit =
      std::max(kLeastWork,
               kWorkPerBuffer * static_cast<int64_t>(problem.buffers.size()));
  int64_t tried = 0;
  for (PlaceOrder order : kPlaceOrders) {
    Placement placement = placer.Place(InOrder(problem, order));
    if (best->by.empty() || placement.height < best->placement.height) {
      best->placement = std::move(placement);
      best->by = std::string(NameOf(order));
    }
    ++tried;
    if (best->placement.height <= enough) return;
    // One more like those before must not pass the limit.
    if (placer.work() / tried * (tried + 1) > limit) return;
  }
}

// Rounds in which those that stick out are placed earlier.
constexpr int kRounds = 100;

// Squeaky wheel optimization (Joslin and Clements, JAIR 10, 1999, section 3):
// who ends above what is enough comes halfway to the front in the next round.
void PlaceSqueaky(const PlaceProblem& problem, Bytes enough, Placed* best) {
  GreedyPlacer placer(problem);
  std::vector<int> order = InOrder(problem, PlaceOrder::kCrowd);
  std::vector<int> rank(order.size());
  for (int round = 0; round < kRounds && placer.work() < kLeastWork; ++round) {
    Placement placement = placer.Place(order);
    for (size_t k = 0; k < order.size(); ++k) {
      const int id = order[k];
      const Bytes end = placement.offsets[id] + problem.buffers[id].size;
      rank[id] = static_cast<int>(end > enough ? k : 2 * k + 1);
    }
    if (placement.height < best->placement.height) {
      best->placement = std::move(placement);
      best->by = "squeaky wheel";
      if (best->placement.height <= enough) return;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&rank](int a, int b) { return rank[a] < rank[b]; });
  }
}

}  // namespace

absl::StatusOr<Placed> Place(const PlaceProblem& problem,
                             const PlaceOptions& options) {
  if (auto s = CheckPlaceProblem(problem); !s.ok()) return s;
  if (auto s = CheckFixed(problem); !s.ok()) return s;
  Placed best;
  best.bound = LowerBound(problem);
  best.least = best.bound.bytes;
  const Bytes enough = std::max(best.bound.bytes, options.enough);
  PlaceGreedily(problem, enough, &best);
  if (best.placement.height <= enough || options.nodes == 0) return best;
  PlaceSqueaky(problem, enough, &best);
  if (best.placement.height <= enough ||
      problem.buffers.size() > kMostSearched) {
    return best;
  }
  SearchResult found = SearchPlacement(problem, best.placement, best.least,
                                       enough, options.nodes);
  if (found.placement.height < best.placement.height) best.by = "search";
  best.placement = std::move(found.placement);
  best.least = found.least;
  best.nodes = found.nodes;
  return best;
}

}  // namespace ebbtide
