#include "planner/demand.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "planner/eviction_order.h"
#include "planner/reruns.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

// Share of the step: no op costs less, since no launch is free.
constexpr double kLeastShare = 1e-6;

enum class Where : uint8_t { kAway, kScript, kDevice };

class Evictor {
 public:
  Evictor(const Graph& graph, int64_t budget, DemandOrder order)
      : graph_(graph),
        budget_(budget),
        order_(order),
        where_(graph.values, Where::kAway),
        locks_(graph.values, 0),
        made_at_(graph.values, 0),
        used_at_(graph.values, 0),
        asked_(graph.values, 0),
        needed_(LastNeeds(graph)),
        wanted_(LastUses(graph)),
        readers_(graph.values),
        least_cost_(kLeastShare * BaseTime(*graph.profile)) {
    for (int i = 0; i < graph.ops; ++i) {
      for (int v : graph.inputs[i]) readers_[v].push_back(i);
    }
  }

  std::vector<Action> Run() {
    for (int i = 0; i < graph_.ops; ++i) Forward(i);
    forward_ = clock_;
    position_ = clock_;
    for (int t = 0; t < graph_.stages; ++t) Backward(t);
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kDevice && IsReleased(v)) Free(v);
    }
    return std::move(actions_);
  }

 private:
  int NextStage() const { return std::max(0, next_ - graph_.ops); }
  bool IsReleased(int v) const {
    return graph_.profile->values[v].released < next_;
  }
  bool IsAway(int v) const { return where_[v] == Where::kAway; }
  bool IsHere(int v) const { return where_[v] == Where::kDevice; }

  void Act(Do what, int index) { actions_.push_back({what, index}); }

  void Place(int v) {
    where_[v] = Where::kDevice;
    resident_ += graph_.bytes[v];
  }

  void Free(int v) {
    where_[v] = Where::kAway;
    resident_ -= graph_.bytes[v];
    Act(Do::kFree, v);
  }

  void Spend(Time time) {
    clock_ += time;
    if (next_ < graph_.ops) position_ = clock_;
  }

  void Forward(int i) {
    int64_t saved = 0;
    for (int v : graph_.outputs[i]) {
      if (graph_.saved[v]) saved += graph_.bytes[v];
    }
    MakeRoom(graph_.other[i] + saved);
    Act(Do::kForward, i);
    Spend(graph_.time[i]);
    for (int v : graph_.inputs[i]) used_at_[v] = clock_;
    for (int v : graph_.outputs[i]) {
      made_at_[v] = used_at_[v] = clock_;
      if (graph_.saved[v]) {
        Place(v);
      } else {
        where_[v] = Where::kScript;
      }
    }
    EndInstant(graph_.released_forward[i]);
  }

  void Backward(int t) {
    const Stage& stage = graph_.profile->stages[t];
    double first = forward_;
    for (int v : graph_.needs[t]) {
      ++locks_[v];
      first = std::min(first, made_at_[v]);
    }
    position_ = first;
    for (int v : graph_.needs[t]) {
      if (IsAway(v)) Rebuild(v);
    }
    MakeRoom(Count(stage.during));
    Act(Do::kBackward, t);
    Spend(stage.time);
    for (int v : graph_.needs[t]) {
      --locks_[v];
      used_at_[v] = clock_;
    }
    EndInstant(graph_.released_stage[t]);
  }

  void EndInstant(absl::Span<const int> released) {
    ++next_;
    for (int v : released) {
      if (where_[v] == Where::kScript) where_[v] = Where::kAway;
    }
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kDevice && MustGo(graph_, v, next_ - 1)) {
        Free(v);
      }
    }
    if (next_ > graph_.ops) FreeGarbage();
  }

  void Rebuild(int target) {
    const std::vector<int> ops = MissingFor(target);
    for (int i : ops) {
      for (int v : graph_.inputs[i]) ++locks_[v];
    }
    for (int i : ops) RunAgain(i);
  }

  // Locks its inputs no more.
  void RunAgain(int i) {
    int64_t fresh = 0;
    for (int v : graph_.outputs[i]) {
      if (IsAway(v)) fresh += graph_.bytes[v];
    }
    const int64_t before = Count(graph_.profile->stages[NextStage()].before);
    MakeRoom(before + fresh + graph_.scratch[i]);
    Act(Do::kRecompute, i);
    Spend(graph_.time[i]);
    for (int v : graph_.outputs[i]) {
      if (IsAway(v)) Place(v);
      used_at_[v] = clock_;
    }
    for (int v : graph_.inputs[i]) {
      --locks_[v];
      used_at_[v] = clock_;
    }
    FreeGarbage();
  }

  // Frees values that no later stage needs, directly or for a recomputation.
  void FreeGarbage() {
    asked_.assign(graph_.values, 0);
    std::vector<int> todo;
    for (int v = 0; v < graph_.values; ++v) {
      if (needed_[v] < NextStage()) continue;
      asked_[v] = 1;
      if (!IsHere(v)) todo.push_back(v);
    }
    while (!todo.empty()) {
      const int op = graph_.op[todo.back()];
      todo.pop_back();
      for (int v : graph_.inputs[op]) {
        if (asked_[v]) continue;
        asked_[v] = 1;
        if (!IsHere(v)) todo.push_back(v);
      }
    }
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kDevice && !asked_[v] && locks_[v] == 0 &&
          IsReleased(v)) {
        Free(v);
      }
    }
  }

  void MakeRoom(int64_t wanted) {
    while (resident_ + wanted > budget_) {
      const int victim = order_ == DemandOrder::kDtr
                             ? BestByStaleness()
                             : BestByNextUse(resident_ + wanted - budget_);
      if (victim < 0) return;
      Free(victim);
    }
  }

  bool IsCandidate(int v) const {
    return IsHere(v) && locks_[v] == 0 && IsReleased(v) &&
           graph_.replayable[graph_.op[v]] && graph_.bytes[v] > 0;
  }

  // False where its recipe reads what no stage needed any more and has gone.
  // The script may release values that it holds.
  bool CanComeBack(int v) const {
    const std::vector<int> ops =
        MissingOps(graph_, v, [this](int u) { return !IsHere(u); });
    return std::all_of(ops.begin(), ops.end(),
                       [this](int i) { return graph_.replayable[i]; });
  }

  // -1: nothing can go.
  int BestByNextUse(int64_t missing) const {
    EvictionChoice choice(missing);
    for (int v = 0; v < graph_.values; ++v) {
      if (!IsCandidate(v)) continue;
      const int64_t bytes = graph_.bytes[v];
      const Time least = least_cost_ + graph_.time[graph_.op[v]];
      if (!choice.MayWin(bytes, AheadOf(made_at_[v]), least)) continue;
      if (!CanComeBack(v)) continue;
      choice.Consider(v, bytes, Ahead(v), CostOf(MissingFor(v)));
    }
    return choice.best();
  }

  int BestByStaleness() const {
    int best = -1;
    double most = -1;
    for (int v = 0; v < graph_.values; ++v) {
      if (!IsCandidate(v)) continue;
      const double score =
          graph_.bytes[v] * (clock_ - used_at_[v]) / CostOf(Neighbourhood(v));
      if (score <= most || !CanComeBack(v)) continue;
      best = v;
      most = score;
    }
    return best;
  }

  // The value made last is needed first; with an evicted value that is needed,
  // everything that it is recomputed from is needed.
  Time Ahead(int v) const {
    Time last = made_at_[v];
    for (int w : EvictedFrom(v)) {
      if (needed_[w] >= NextStage()) last = std::max(last, made_at_[w]);
    }
    return AheadOf(last);
  }
  Time AheadOf(Time made) const {
    return std::max(0.0, position_ - made) +
           kNear * std::max(position_, forward_);
  }

  Time CostOf(const std::vector<int>& ops) const {
    Time cost = least_cost_;
    for (int i : ops) cost += graph_.time[i];
    return cost;
  }

  // Ops to recompute v, as if it were evicted.
  std::vector<int> MissingFor(int v) const {
    return MissingOps(graph_, v, [this](int u) { return IsAway(u); });
  }

  // Values that would be recomputed from v, or from others of them.
  std::vector<int> EvictedFrom(int v) const {
    std::vector<char> seen(graph_.values);
    std::vector<int> found = {v};
    for (size_t k = 0; k < found.size(); ++k) {
      for (int i : readers_[found[k]]) {
        for (int w : graph_.outputs[i]) {
          if (IsEvicted(w) && !std::exchange(seen[w], 1)) found.push_back(w);
        }
      }
    }
    found.erase(found.begin());
    return found;
  }

  // Ops of v, of the values that it would be recomputed from, and of those
  // recomputed from it.
  std::vector<int> Neighbourhood(int v) const {
    std::vector<int> ops = MissingFor(v);
    for (int w : EvictedFrom(v)) ops.push_back(graph_.op[w]);
    std::sort(ops.begin(), ops.end());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    return ops;
  }

  // Absent, made before, and needed again.
  bool IsEvicted(int v) const {
    return IsAway(v) && made_at_[v] > 0 && wanted_[v] >= NextStage();
  }

  const Graph& graph_;
  const int64_t budget_;
  const DemandOrder order_;
  Time clock_ = 0;
  Time forward_ = 0;
  // On the clock of the forward pass: how far it is, or how far backward has
  // come back.
  Time position_ = 0;
  int next_ = 0;  // instant to come
  int64_t resident_ = 0;
  std::vector<Where> where_;
  std::vector<int> locks_;
  std::vector<Time> made_at_;
  std::vector<Time> used_at_;
  std::vector<char> asked_;
  const std::vector<int> needed_;
  const std::vector<int> wanted_;
  std::vector<std::vector<int>> readers_;  // ops, of values
  const Time least_cost_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> DemandActions(const Graph& graph, int64_t budget,
                                  DemandOrder order) {
  return Evictor(graph, budget, order).Run();
}

Draft DemandDraft(const Graph& graph, int64_t budget, DemandOrder order) {
  Draft draft = KeepAll(graph, false);
  int next = 0;                             // stage to come
  std::vector<int> used(graph.values, -1);  // at which stage; -1: at the loss
  for (const Action& action : DemandActions(graph, budget, order)) {
    const int i = action.index;
    switch (action.what) {
      case Do::kForward:
        break;
      case Do::kBackward:
        for (int v : graph.needs[i]) used[v] = i;
        next = i + 1;
        break;
      case Do::kRecompute:
        for (int v : graph.inputs[i]) used[v] = next;
        for (int v : graph.outputs[i]) used[v] = next;
        break;
      default:  // The value is released: after its last use if its op cannot be
                // recomputed.
        if (!graph.replayable[graph.op[i]]) break;
        draft.bits.row(i).Set(used[i], std::max(used[i] + 1, next), 0);
    }
  }
  return draft;
}

}  // namespace ebbtide
