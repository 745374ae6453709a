#include <algorithm>

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
      model_.mip.AddRow(1, {{stay, 1}, {made, 1}}, 1);
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
  left.push_back({next, 1});
  left.push_back({model_.stay[g][v], -1});
  left.push_back({made_[g][v], -1});
  model_.mip.AddRow(-kInfinity, left, 0);
}

void ModelBuilder::AddMemory(int g) {
  const int t = StageOf(g);
  const Stage& stage = graph_.profile->stages[t];
  const double room = Room(t, Count(stage.before));
  std::vector<Term> live;  // of what is there
  live.reserve(graph_.values);
  for (int v = 0; v < graph_.values; ++v) {
    live.push_back({model_.stay[g][v], Weight(v)});
  }
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
  if (!EndsStage(g)) return;
  model_.mip.AddRow(-kInfinity, live, Room(t, Count(stage.during)));
}

// A variable for the sum, at most `most`.
std::vector<Term> ModelBuilder::SumUp(std::vector<Term> terms, double most) {
  // Several outputs of an op may share the variable of its run.
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
    model_.mip.AddRow(-kInfinity, stay, Room(t, fixed));
  }
}

// What is needed from a stage on is there or run again later, and so is what
// running it again reads.
void ModelBuilder::AddLater() {
  std::vector<int> later(graph_.ops, kNoColumn);
  for (int t = graph_.stages - 1; t >= 0; --t) {
    for (int i = 0; i < graph_.ops; ++i) later[i] = AddLaterOf(i, t, later);
    for (int v = 0; v < graph_.values; ++v) {
      if (last_need_[v] < t || Held(v, t)) continue;
      model_.mip.AddRow(
          1, {{model_.stay[FirstOf(t)][v], 1}, {later[graph_.op[v]], 1}},
          kInfinity);
    }
    for (int i = 0; i < graph_.ops; ++i) {
      if (later[i] < 0) continue;
      for (int u : graph_.inputs[i]) {
        if (Held(u, t)) continue;
        AddImplied(later[i], model_.stay[FirstOf(t)][u], later[graph_.op[u]]);
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
