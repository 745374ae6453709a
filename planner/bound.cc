#include "planner/bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/host_room.h"

namespace ebbtide {
namespace {

// Shave off what double arithmetic may have added.
constexpr double kSafe = 1 - 1e-9;

class OneInstant {
 public:
  OneInstant(CutProblem problem, int64_t budget, std::vector<HostRoom> host)
      : problem_(std::move(problem)),
        room_(budget - problem_.fixed()),
        host_(std::move(host)) {
    for (const HostRoom& h : host_) moves_ = moves_ || h.bytes > 0 || Grows(h);
  }

  InstantBound Run(bool* infeasible) {
    if (room_ < 0) {
      *infeasible = true;
      return best_;
    }
    if (!moves_) problem_.SetRoom(room_);
    CutSolution many = problem_.Solve(0);
    if (Fits(many)) return best_;
    CutSolution few = problem_.Solve(-1);
    BoundByBytes(few.kept, infeasible);
    if (*infeasible || few.kept >= many.kept) return best_;
    for (int round = 0; round < kRounds; ++round) {
      const double price =
          (few.cost - many.cost) / static_cast<double>(many.kept - few.kept);
      if (price <= 0) break;
      const CutSolution middle = problem_.Solve(price);
      Note(middle.value, price);
      const double line = many.cost + price * many.kept;
      const double value = middle.cost + price * middle.kept;
      if (value >= line * (1 - 1e-12)) break;
      (Fits(middle) ? few : many) = middle;
    }
    // Beyond this price offloading is cheaper than recomputing at any price.
    for (const HostRoom& h : host_) {
      if (best_.price * h.per_before <= 1) continue;
      const double price = 1 / h.per_before;
      Note(problem_.Solve(price).value, price);
    }
    return best_;
  }

 private:
  static constexpr int kRounds = 20;

  static bool Grows(const HostRoom& h) {
    return h.per_before > 0 || h.per_after > 0;
  }

  // Without more overhead after the instant than the bound so far.
  bool Fits(const CutSolution& solution) const {
    double host = HUGE_VAL;
    for (const HostRoom& h : host_) {
      host = std::min(host, h.bytes + h.per_after * best_.overhead);
    }
    return static_cast<double>(solution.kept - room_) <= host;
  }

  // A plan with overhead a before the instant and b after it recomputes for at
  // least missing - price (per_before a + per_after b), and for at most b: the
  // sum of both is least where all of it is of the kind that helps more.
  void Note(double value, double price) {
    for (const HostRoom& h : host_) {
      const double missing = value * kSafe - price * (room_ + h.bytes);
      const double help =
          std::max(price * h.per_before, 1 + price * h.per_after);
      const double x = missing / help * kSafe;
      if (x <= best_.overhead) continue;
      best_.overhead = x;
      best_.price = price;
    }
  }

  // At least `kept` bytes are on the device or the host.
  void BoundByBytes(int64_t kept, bool* infeasible) {
    for (const HostRoom& h : host_) {
      const double missing = kept - room_ - h.bytes;
      if (missing <= 0) continue;
      if (Grows(h)) {
        best_.overhead = std::max(
            best_.overhead, missing / (h.per_before + h.per_after) * kSafe);
      } else {
        *infeasible = true;
      }
    }
  }

  CutProblem problem_;
  const int64_t room_;
  const std::vector<HostRoom> host_;
  bool moves_ = false;
  InstantBound best_;
};

// The instants most likely to bind first: around the loss, then all others at
// a growing distance from it.
std::vector<int> InstantOrder(const Graph& graph) {
  std::vector<int> order;
  const int loss = graph.ops - 1;
  constexpr int kNear = 12;
  constexpr int kSamples = 150;
  for (int t = 0; t < std::min(kNear, graph.stages); ++t) {
    order.push_back(graph.ops + t);
  }
  if (loss >= 0) order.push_back(loss);
  const int step = std::max(1, graph.stages / kSamples);
  for (int t = kNear; t < graph.stages; t += step) {
    order.push_back(graph.ops + t);
  }
  const int forward_step = std::max(1, graph.ops / (kSamples / 4));
  for (int i = loss - 1; i >= 0; i -= forward_step) order.push_back(i);
  return order;
}

}  // namespace

OverheadBound BoundOverhead(const Graph& graph, int64_t budget, bool offload,
                            const std::function<bool()>& stop) {
  OverheadBound bound;
  bound.infeasible = Count(graph.profile->tail) > budget;
  const HostRooms host(graph, offload);
  for (int instant : InstantOrder(graph)) {
    if (bound.infeasible || stop()) break;
    OneInstant problem(CutProblem::At(graph, instant), budget,
                       host.At(instant));
    InstantBound at = problem.Run(&bound.infeasible);
    at.instant = instant;
    bound.instants.push_back(at);
    if (at.overhead <= bound.overhead && !bound.infeasible) continue;
    bound.overhead = std::max(bound.overhead, at.overhead);
    bound.instant = instant;
  }
  return bound;
}

}  // namespace ebbtide
