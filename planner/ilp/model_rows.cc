#include <algorithm>
#include <utility>

#include "planner/ilp/model_builder.h"

namespace ebbtide {

// Comings and goings of values in a segment, and the bytes of what is there.
void ModelBuilder::AddFlow(int g) {
  const int t = StageOf(g);
  std::vector<std::vector<int>> readers(graph_.values);
  std::vector<char> needed(graph_.values, 0);
  for (int i = 0; i < graph_.ops; ++i) {
    if (model_.run[g][i] < 0) continue;
    for (int v : graph_.inputs[i]) readers[v].push_back(i);
  }
  if (EndsStage(g)) {
    for (int v : graph_.needs[t]) needed[v] = 1;
  }
  leaves_.assign(graph_.ops, {});
  for (int v = 0; v < graph_.values; ++v) {
    if (Held(v, t)) continue;
    const int stay = model_.stay[g][v];
    const int made = made_[g][v];
    const int next = model_.stay[g + 1][v];
    if (needed[v]) {
      std::vector<Term> there = {{stay, 1}, {made, 1}};
      AddBack(v, g, 1, &there);
      AddMerged(1, there, 1);
    } else if (stay >= 0 || made >= 0) {
      AddLeaves(v, g, readers[v], next);
    }
  }
  AddMemory(g);
}

// v leaves at most once, after its last reader, unless it stays.
void ModelBuilder::AddLeaves(int v, int g, const std::vector<int>& readers,
                             int next) {
  std::vector<Term> left;
  const auto add = [&](int k) {
    const int column = model_.mip.AddReal(0, 1);
    leaves_[k].push_back({v, column});
    left.push_back({column, 1});
  };
  if (made_[g][v] >= 0) add(graph_.op[v]);
  for (int k : readers) {
    left.push_back({model_.run[g][k], 1});
    if (left.size() > 1) model_.mip.AddRow(-kInfinity, left, 1);
    left.pop_back();
    add(k);
  }
  if (model_.off[v] >= 0) {
    return AddLeavesOfMoved(v, g, std::move(left), next);
  }
  left.push_back({next, 1});
  left.push_back({model_.stay[g][v], -1});
  left.push_back({made_[g][v], -1});
  model_.mip.AddRow(-kInfinity, left, 0);
}

// A value restored in this segment counts while the stage runs, unless it is
// dropped before; it cannot make room by leaving before it counts.
void ModelBuilder::AddLeavesOfMoved(int v, int g, std::vector<Term> left,
                                    int next) {
  std::vector<Term> counted = std::move(left);
  counted.push_back({model_.stay[g][v], -1});
  counted.push_back({made_[g][v], -1});
  std::vector<Term> all = counted;
  counted.push_back({Asked(v, g - 1), -1});
  counted.push_back({Back(v, g - 1), 1});
  AddMerged(-kInfinity, counted, 0);
  if (Back(v, g) != Back(v, g - 1)) {
    const int drop = model_.mip.AddReal(0, 1);
    drop_[g][v] = drop;
    AddMerged(-kInfinity, {{drop, 1}, {Asked(v, g), -1}, {Asked(v, g - 1), 1}},
              0);
    all.push_back({drop, 1});
  }
  all.push_back({next, 1});
  AddBack(v, g, -1, &all);
  AddMerged(-kInfinity, all, 0);
}

// Bytes of what is on its way out while stage t runs, and of what is on its way
// back when segment g begins.
void ModelBuilder::AddMoving(int t, int g, std::vector<Term>* live) const {
  for (int v : moved_) {
    live->push_back({model_.off[v], Weight(v)});
    live->push_back({Gone(v, graph_.ops + t), -Weight(v)});
    live->push_back({Asked(v, g - 1), Weight(v)});
    live->push_back({Back(v, g - 1), -Weight(v)});
  }
}

void ModelBuilder::AddMemory(int g) {
  const int t = StageOf(g);
  const Stage& stage = graph_.profile->stages[t];
  const double room = Room(t, Count(stage.before));
  std::vector<Term> live;  // bytes of present values
  live.reserve(graph_.values);
  for (int v = 0; v < graph_.values; ++v) {
    live.push_back({model_.stay[g][v], Weight(v)});
  }
  AddMoving(t, g, &live);
  for (int i = 0; i < graph_.ops; ++i) {
    const int run = model_.run[g][i];
    if (run < 0) continue;
    for (int v : graph_.outputs[i]) live.push_back({made_[g][v], Weight(v)});
    live = SumUp(live, room);
    const double scratch = graph_.scratch[i] / bytes_unit_;
    if (scratch > 0) {
      model_.mip.AddRow(-kInfinity, {live[0], {run, scratch}}, room);
    }
    for (const Leave& leave : leaves_[i]) {
      live.push_back({leave.column, -Weight(leave.v)});
    }
  }
  for (int v : moved_) {
    live.push_back({Asked(v, g), Weight(v)});
    live.push_back({Asked(v, g - 1), -Weight(v)});
    live.push_back({drop_[g][v], -Weight(v)});
  }
  if (!EndsStage(g)) return;
  AddMerged(-kInfinity, live, Room(t, Count(stage.during)));
}

// Several outputs of an op may share the variable of its run; of a value on its
// way the same variable may be its place before and after.
std::vector<Term> ModelBuilder::Merge(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.column < b.column; });
  std::vector<Term> sum;
  for (const Term& term : terms) {
    if (!sum.empty() && sum.back().column == term.column) {
      sum.back().factor += term.factor;
    } else {
      sum.push_back(term);
    }
  }
  return sum;
}

void ModelBuilder::AddMerged(double least, std::vector<Term> terms,
                             double most) {
  if (moves_) terms = Merge(std::move(terms));
  model_.mip.AddRow(least, terms, most);
}

// A variable for the sum, at most `most`.
std::vector<Term> ModelBuilder::SumUp(std::vector<Term> terms, double most) {
  std::vector<Term> sum = Merge(std::move(terms));
  const int live = model_.mip.AddReal(0, most);
  sum.push_back({live, -1});
  model_.mip.AddRow(0, sum, 0);
  return {{live, 1}};
}

void ModelBuilder::AddForward() {
  for (int i = 0; i < graph_.ops; ++i) {
    int64_t fixed = graph_.other[i];
    std::vector<Term> kept;
    for (int v = 0; v < graph_.values; ++v) {
      if (!graph_.saved[v] || graph_.op[v] > i) continue;
      if (graph_.profile->values[v].released >= i) {
        fixed += graph_.bytes[v];
      } else {
        kept.push_back({model_.stay[0][v], Weight(v)});
        kept.push_back({model_.off[v], Weight(v)});
        kept.push_back({Gone(v, i), -Weight(v)});
      }
    }
    model_.mip.AddRow(-kInfinity, kept, RoomBeside(fixed));
  }
  Room(graph_.stages, Count(graph_.profile->tail));
}

// While a stage runs, what it needs and what stays after it is there.
void ModelBuilder::AddStageEnds() {
  for (int t = 0; t + 1 < graph_.stages; ++t) {
    const int next = FirstOf(t + 1);
    int64_t fixed = Count(graph_.profile->stages[t].during);
    std::vector<char> needed(graph_.values, 0);
    for (int v : graph_.needs[t]) {
      needed[v] = 1;
      if (!Held(v, t)) fixed += graph_.bytes[v];
    }
    std::vector<Term> stay;
    for (int v = 0; v < graph_.values; ++v) {
      if (!needed[v] && !Held(v, t)) {
        stay.push_back({model_.stay[next][v], Weight(v)});
      }
    }
    AddMoving(t, next, &stay);
    AddMerged(-kInfinity, stay, Room(t, fixed));
  }
}

// A value needed from a stage on is there or recomputed later, and so are the
// inputs of its recomputation.
void ModelBuilder::AddLater() {
  std::vector<int> later(graph_.ops, kNoColumn);
  for (int t = graph_.stages - 1; t >= 0; --t) {
    for (int i = 0; i < graph_.ops; ++i) later[i] = AddLaterOf(i, t, later);
    for (int v = 0; v < graph_.values; ++v) {
      if (last_need_[v] < t || Held(v, t)) continue;
      std::vector<Term> there = {{model_.stay[FirstOf(t)][v], 1},
                                 {later[graph_.op[v]], 1}};
      AddAway(v, FirstOf(t), 1, &there);
      AddMerged(1, there, kInfinity);
    }
    for (int i = 0; i < graph_.ops; ++i) {
      if (later[i] < 0) continue;
      for (int u : graph_.inputs[i]) {
        if (Held(u, t)) continue;
        std::vector<Term> there = {{model_.stay[FirstOf(t)][u], 1},
                                   {later[graph_.op[u]], 1},
                                   {later[i], -1}};
        AddAway(u, FirstOf(t), 1, &there);
        AddMerged(0, there, kInfinity);
      }
    }
  }
}

int ModelBuilder::AddLaterOf(int i, int t, const std::vector<int>& later) {
  std::vector<Term> terms = {{later[i], 1}};
  for (int g = FirstOf(t); g < FirstOf(t + 1); ++g) {
    terms.push_back({model_.run[g][i], 1});
  }
  const bool any = std::any_of(terms.begin(), terms.end(),
                               [](const Term& x) { return x.column >= 0; });
  if (!any) return kNoColumn;
  const int column = model_.mip.AddReal(0, 1);
  terms.push_back({column, -1});
  model_.mip.AddRow(0, terms, kInfinity);
  return column;
}

}  // namespace ebbtide
