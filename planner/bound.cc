#include "planner/bound.h"

#include <algorithm>
#include <vector>

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
    least_host_ = host_[0].bytes;
    for (const HostRoom& h : host_) {
      least_host_ = std::min(least_host_, h.bytes);
      moves_ = moves_ || h.bytes > 0 || h.rate > 0;
    }
  }

  InstantBound Run(bool* infeasible) {
    if (room_ < 0) {
      *infeasible = true;
      return best_;
    }
    if (!moves_) problem_.SetRoom(room_);
    CutSolution many = problem_.Solve(0);
    if (many.kept <= room_ + least_host_) return best_;
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
      (middle.kept > room_ + least_host_ ? many : few) = middle;
    }
    return best_;
  }

 private:
  static constexpr int kRounds = 20;

  // No overhead below x satisfies value - price (room + host(x)) <= x.
  void Note(double value, double price) {
    for (const HostRoom& h : host_) {
      const double x =
          (value * kSafe - price * (room_ + h.bytes)) / (1 + price * h.rate);
      if (x * kSafe <= best_.overhead) continue;
      best_.overhead = x * kSafe;
      best_.price = price;
    }
  }

  // At least `kept` bytes are on the device or the host.
  void BoundByBytes(int64_t kept, bool* infeasible) {
    for (const HostRoom& h : host_) {
      const double missing = kept - room_ - h.bytes;
      if (missing <= 0) continue;
      if (h.rate <= 0) {
        *infeasible = true;
      } else {
        best_.overhead = std::max(best_.overhead, missing / h.rate * kSafe);
      }
    }
  }

  CutProblem problem_;
  const int64_t room_;
  const std::vector<HostRoom> host_;
  double least_host_ = 0;
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

std::vector<HostRoom> HostRooms(const Graph& graph, bool offload, int instant) {
  const Profile& profile = *graph.profile;
  if (!offload || profile.d2h <= 0 || profile.h2d <= 0) return {{}};
  Time before = 0;
  Time after = 0;
  for (int i = 0; i < graph.ops; ++i) {
    (i < instant ? before : after) += profile.ops[i].time;
  }
  for (int t = 0; t < graph.stages; ++t) {
    (graph.ops + t < instant ? before : after) += profile.stages[t].time;
  }
  std::vector<HostRoom> rooms = {{profile.d2h * before, profile.d2h},
                                 {profile.h2d * after, profile.h2d}};
  if (profile.host >= Bytes{}) {
    rooms.push_back({static_cast<double>(Count(profile.host)), 0});
  }
  return rooms;
}

OverheadBound BoundOverhead(const Graph& graph, int64_t budget, bool offload,
                            const std::function<bool()>& stop) {
  OverheadBound bound;
  bound.infeasible = Count(graph.profile->tail) > budget;
  for (int instant : InstantOrder(graph)) {
    if (bound.infeasible || stop()) break;
    OneInstant problem(CutProblem::At(graph, instant), budget,
                       HostRooms(graph, offload, instant));
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
