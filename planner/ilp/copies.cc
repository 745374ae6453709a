#include "planner/ilp/copies.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace ebbtide {
namespace {

struct Job {
  int deadline = 0;
  int value = 0;
  Time ready = 0;
  bool operator<(const Job& other) const {
    return std::tie(deadline, value) > std::tie(other.deadline, other.value);
  }
};

class Lane {
 public:
  Lane(const Graph& graph, double rate) : graph_(graph), rate_(rate) {}

  void Add(const Job& job) { waiting_.push(job); }

  // What it is given at `now`, so that it does not stand still before `next`;
  // at least what has its deadline.
  std::vector<int> Take(Time now, Time next, int deadline) {
    std::vector<int> given;
    while (!waiting_.empty() &&
           (end_ < next || waiting_.top().deadline <= deadline)) {
      const Job job = waiting_.top();
      waiting_.pop();
      end_ = std::max({end_, now, job.ready}) + graph_.bytes[job.value] / rate_;
      ends_.push_back({.value = job.value, .ready = end_});
      given.push_back(job.value);
    }
    return given;
  }

  const std::vector<Job>& ends() const { return ends_; }

 private:
  const Graph& graph_;
  const double rate_;
  Time end_ = 0;
  std::priority_queue<Job> waiting_;
  std::vector<Job> ends_;
};

}  // namespace

CopyOrder OrderCopies(const Graph& graph, const Schedule& schedule) {
  constexpr Time kNever = std::numeric_limits<Time>::infinity();
  const Profile& profile = *graph.profile;
  const int segments = static_cast<int>(schedule.run.size());
  CopyOrder order;
  order.out.resize(graph.ops);
  order.back.resize(segments);
  if (schedule.moves.empty()) return order;
  Lane out(graph, profile.d2h);
  for (int i = 0; i < graph.ops; ++i) {
    for (const Move& move : schedule.moves) {
      if (profile.values[move.value].released == i) {
        out.Add({.deadline = move.gone, .value = move.value});
      }
    }
    const auto end = [&](int k) { return schedule.start[k] + graph.time[k]; };
    const Time next = i + 1 < graph.ops ? end(i + 1) : kNever;
    order.out[i] = out.Take(end(i), next, -1);
  }
  std::vector<Time> gone(graph.values, 0);
  for (const Job& job : out.ends()) gone[job.value] = job.ready;
  Lane back(graph, profile.h2d);
  Time now = schedule.start[graph.ops - 1] + graph.time[graph.ops - 1];
  for (int g = 0; g < segments; ++g) {
    const int t = g / schedule.passes;
    for (const Move& move : schedule.moves) {
      if (move.asked != g) continue;
      back.Add({move.back, move.value, gone[move.value]});
    }
    const Time next = schedule.start[graph.ops + t] + profile.stages[t].time;
    order.back[g] = back.Take(now, next, g);
    if ((g + 1) % schedule.passes == 0) now = next;
  }
  return order;
}

}  // namespace ebbtide
