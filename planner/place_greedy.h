// Placing buffers one by one, each as low as it fits. Private to the planner.
#ifndef EBBTIDE_PLANNER_PLACE_GREEDY_H_
#define EBBTIDE_PLANNER_PLACE_GREEDY_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/interval_index.h"
#include "planner/place_problem.h"

namespace ebbtide {

// Orders in which buffers are placed; ties by what is named next, then by
// position in the problem. Bytes that are live at once are those of the fullest
// instant of a buffer's life (with several streams: by each stream's clock).
enum class PlaceOrder {
  kSize,         // largest first, then longest
  kArea,         // size by length, largest first
  kLength,       // longest first, then largest
  kBegin,        // in program order, then largest
  kEnd,          // from the end of the program, then largest
  kCrowd,        // where most bytes are live, then largest
  kCrowdLength,  // where most bytes are live, then longest
};
// As the portfolio tries them.
inline constexpr PlaceOrder kPlaceOrders[] = {
    PlaceOrder::kCrowd,      PlaceOrder::kLength, PlaceOrder::kArea,
    PlaceOrder::kSize,       PlaceOrder::kBegin,  PlaceOrder::kEnd,
    PlaceOrder::kCrowdLength};
absl::string_view NameOf(PlaceOrder order);

// Every buffer once, in that order.
std::vector<int> InOrder(const PlaceProblem& problem, PlaceOrder order);

// By buffer, the most bytes that are live at once while it is.
std::vector<Bytes> Crowds(const PlaceProblem& problem);

// Places the buffers of one valid problem, in any number of orders.
class GreedyPlacer {
 public:
  explicit GreedyPlacer(const PlaceProblem& problem);

  // Fixed buffers lie where they must, whatever the order. With one stream an
  // interval index is asked; with several each placed buffer is looked at.
  // O(n^2) in the worst case.
  Placement Place(absl::Span<const int> order);
  // Placed buffers that were looked at since construction: a clock that ticks
  // alike everywhere.
  int64_t work() const { return work_; }

 private:
  int64_t LowestRoom(int id);
  void Take(int id, int64_t offset);

  const PlaceProblem& problem_;
  std::vector<std::vector<Positions>> when_;   // one stream: by buffer
  std::vector<std::vector<Lifetime>> pieces_;  // several: by buffer
  int positions_ = 0;                          // one stream
  std::optional<IntervalIndex> index_;         // one stream
  std::vector<int> placed_;                    // several
  std::vector<Bytes> offsets_;
  int64_t work_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_GREEDY_H_
