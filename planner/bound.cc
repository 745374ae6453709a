#include "planner/bound.h"

#include <algorithm>
#include <vector>

namespace ebbtide {
namespace {

// Shave off what double arithmetic may have added.
constexpr double kSafe = 1 - 1e-9;

// Bytes that may be on the host at an instant: `bytes` and `rate` more per
// unit of overhead.
struct HostRoom {
  double bytes = 0;
  double rate = 0;
};

class InstantBound {
 public:
  InstantBound(CutProblem problem, int64_t budget, std::vector<HostRoom> host)
      : problem_(std::move(problem)),
        room_(budget - problem_.fixed()),
        host_(std::move(host)) {
    least_host_ = host_[0].bytes;
    for (const HostRoom& h : host_) {
      least_host_ = std::min(least_host_, h.bytes);
      moves_ = moves_ || h.bytes > 0 || h.rate > 0;
    }
  }

  // The bound; sets `infeasible` where nothing fits.
  Time Run(bool* infeasible) {
    if (room_ < 0) {
      *infeasible = true;
      return 0;
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
      best_ = std::max(best_, x * kSafe);
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
        best_ = std::max(best_, missing / h.rate * kSafe);
      }
    }
  }

  CutProblem problem_;
  const int64_t room_;
  const std::vector<HostRoom> host_;
  double least_host_ = 0;
  bool moves_ = false;
  Time best_ = 0;
};

std::vector<HostRoom> HostRooms(const Profile& profile, bool offload,
                                Time before, Time after) {
  if (!offload || profile.d2h <= 0 || profile.h2d <= 0) return {{}};
  std::vector<HostRoom> rooms = {{profile.d2h * before, profile.d2h},
                                 {profile.h2d * after, profile.h2d}};
  if (profile.host >= Bytes{}) {
    rooms.push_back({static_cast<double>(Count(profile.host)), 0});
  }
  return rooms;
}

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
  const Profile& profile = *graph.profile;
  std::vector<Time> until = {0};  // time before each instant
  for (const Op& op : profile.ops) until.push_back(until.back() + op.time);
  for (const Stage& s : profile.stages) until.push_back(until.back() + s.time);
  OverheadBound bound;
  bound.infeasible = Count(profile.tail) > budget;
  for (int instant : InstantOrder(graph)) {
    if (bound.infeasible || stop()) break;
    CutProblem problem = instant < graph.ops
                             ? CutProblem::AtForward(graph, instant)
                             : CutProblem::AtStage(graph, instant - graph.ops);
    const std::vector<HostRoom> rooms = HostRooms(
        profile, offload, until[instant], until.back() - until[instant]);
    const Time overhead =
        InstantBound(std::move(problem), budget, rooms).Run(&bound.infeasible);
    if (overhead <= bound.overhead && !bound.infeasible) continue;
    bound.overhead = std::max(bound.overhead, overhead);
    bound.instant = instant;
  }
  return bound;
}

}  // namespace ebbtide
