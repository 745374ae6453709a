#include "planner/ilp/copies.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace ebbtide {
namespace {

constexpr int kNone = -1;  // a deadline before all others

// A copy. `ready`: when it may begin; of those given to a lane, when it ends.
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

  // Takes the jobs to start at `now`, so that the lane does not stand still
  // before `next`; at least those that reach their deadline.
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

// Also says when each value's copy ends, of values.
std::vector<std::vector<int>> OrderOut(const Graph& graph,
                                       const Schedule& schedule,
                                       std::vector<Time>* gone) {
  constexpr Time kNever = std::numeric_limits<Time>::infinity();
  const auto end = [&](int i) {
    return i < graph.ops ? schedule.start[i] + graph.time[i] : kNever;
  };
  std::vector<std::vector<int>> order(graph.ops);
  Lane lane(graph, graph.profile->d2h);
  for (int i = 0; i < graph.ops; ++i) {
    for (const Move& move : schedule.moves) {
      if (graph.profile->values[move.value].released == i) {
        lane.Add({.deadline = move.gone, .value = move.value});
      }
    }
    order[i] = lane.Take(end(i), end(i + 1), kNone);
  }
  for (const Job& job : lane.ends()) (*gone)[job.value] = job.ready;
  return order;
}

std::vector<std::vector<int>> OrderBack(const Graph& graph,
                                        const Schedule& schedule,
                                        const std::vector<Time>& gone) {
  const int segments = static_cast<int>(schedule.run.size());
  std::vector<std::vector<int>> order(segments);
  Lane lane(graph, graph.profile->h2d);
  Time now = schedule.start[graph.ops - 1] + graph.time[graph.ops - 1];
  for (int g = 0; g < segments; ++g) {
    const int t = g / schedule.passes;
    for (const Move& move : schedule.moves) {
      if (move.asked != g) continue;
      lane.Add({.deadline = move.back,
                .value = move.value,
                .ready = gone[move.value]});
    }
    const Time next =
        schedule.start[graph.ops + t] + graph.profile->stages[t].time;
    order[g] = lane.Take(now, next, g);
    if ((g + 1) % schedule.passes == 0) now = next;
  }
  return order;
}

}  // namespace

CopyOrder OrderCopies(const Graph& graph, const Schedule& schedule) {
  CopyOrder order;
  order.out.resize(graph.ops);
  order.back.resize(schedule.run.size());
  if (schedule.moves.empty()) return order;
  std::vector<Time> gone(graph.values, 0);
  order.out = OrderOut(graph, schedule, &gone);
  order.back = OrderBack(graph, schedule, gone);
  return order;
}

}  // namespace ebbtide
