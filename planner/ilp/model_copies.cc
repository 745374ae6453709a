#include <algorithm>

#include "planner/ilp/model_builder.h"

namespace ebbtide {

void ModelBuilder::AddWays() {
  if (moved_.empty()) return;
  for (int v : moved_) AddStates(v);
  AddTimes();
  for (int v : moved_) AddRoundTrip(v);
  AddWayOut();
  AddWayBack();
  const Bytes host = graph_.profile->host;
  if (host < Bytes{}) return;
  std::vector<Term> terms;
  for (int v : moved_) terms.push_back({model_.off[v], Weight(v)});
  model_.mip.AddRow(-kInfinity, terms, Count(host) / bytes_unit_);
}

// Adds the movable values, and the variables of their copies.
void ModelBuilder::AddMoves() {
  model_.off.assign(graph_.values, kNoColumn);
  model_.gone.assign(graph_.ops + graph_.stages, model_.off);
  model_.asked.assign(segments_, model_.off);
  model_.back = drop_ = model_.asked;
  due_.assign(graph_.values, -1);
  if (!moves_) return;
  for (int t = graph_.stages - 1; t >= 0; --t) {
    for (int v : graph_.needs[t]) due_[v] = t;
  }
  for (int v = 0; v < graph_.values; ++v) {
    if (!graph_.movable[v] || model_.stay[0][v] < 0) continue;
    if (due_[v] < 0) due_[v] = last_use_[v];
    moved_.push_back(v);
    AddMove(v);
  }
}

// True if an op that may run in segment g reads v.
bool ModelBuilder::MayBeReadBy(int v, int g) const {
  const auto useful = [&](int u) { return last_use_[u] >= StageOf(g); };
  for (int i = graph_.op[v] + 1; i < graph_.ops; ++i) {
    if (!graph_.may_replay[i]) continue;
    const absl::Span<const int> inputs = graph_.inputs[i];
    const absl::Span<const int> outputs = graph_.outputs[i];
    if (std::find(inputs.begin(), inputs.end(), v) != inputs.end() &&
        std::any_of(outputs.begin(), outputs.end(), useful)) {
      return true;
    }
  }
  return false;
}

void ModelBuilder::AddMove(int v) {
  const int off = model_.mip.AddBinary(0);
  model_.off[v] = off;
  model_.mip.AddRow(-kInfinity, {{model_.stay[0][v], 1}, {off, 1}}, 1);
  AddGone(v);
  AddReturn(v);
}

void ModelBuilder::AddGone(int v) {
  const int off = model_.off[v];
  int before = kNoColumn;
  const int end = graph_.ops + due_[v];
  for (int k = graph_.profile->values[v].released + 1; k < end; ++k) {
    const int gone = model_.mip.AddBinary(0);
    if (before >= 0) AddImplied(before, gone, kNoColumn);
    model_.gone[k][v] = before = gone;
  }
  if (before >= 0) AddImplied(before, off, kNoColumn);
  for (int k = end; k < graph_.ops + graph_.stages; ++k) {
    model_.gone[k][v] = off;
  }
}

void ModelBuilder::AddReturn(int v) {
  const int off = model_.off[v];
  int asked = kNoColumn;
  int back = kNoColumn;
  for (int g = 0; g < segments_; ++g) {
    if (StageOf(g) >= due_[v] && EndsStage(g)) {
      if (asked >= 0 && asked != off) AddImplied(asked, off, kNoColumn);
      asked = back = off;
    } else if (asked != off) {
      const int next = model_.mip.AddBinary(0);
      if (asked >= 0) AddImplied(asked, next, kNoColumn);
      if (StageOf(g) + 1 < graph_.stages) {
        AddImplied(next, Gone(v, graph_.ops + StageOf(g) + 1), kNoColumn);
      }
      asked = next;
      if (MayBeReadBy(v, g)) {
        const int there = model_.mip.AddBinary(0);
        if (back >= 0) AddImplied(back, there, kNoColumn);
        AddImplied(there, asked, kNoColumn);
        AddImplied(there, Gone(v, graph_.ops + StageOf(g)), kNoColumn);
        back = there;
      }
    }
    model_.asked[g][v] = asked;
    model_.back[g][v] = back;
  }
}

// On the host, or on its way, when segment g begins.
void ModelBuilder::AddAway(int v, int g, double factor,
                           std::vector<Term>* terms) const {
  terms->push_back({model_.off[v], factor});
  terms->push_back({Back(v, g - 1), -factor});
}

// Comes back to be read in segment g for the first time.
void ModelBuilder::AddBack(int v, int g, double factor,
                           std::vector<Term>* terms) const {
  terms->push_back({Back(v, g), factor});
  terms->push_back({Back(v, g - 1), -factor});
}

// One place at a time.
void ModelBuilder::AddStates(int v) {
  for (int g = 0; g < segments_ && StageOf(g) <= due_[v]; ++g) {
    std::vector<Term> places = {{model_.stay[g][v], 1}, {made_[g][v], 1}};
    AddAway(v, g, 1, &places);
    AddMerged(-kInfinity, places, 1);
    if (graph_.outputs[graph_.op[v]].size() > 1 && RunOf(v, g) >= 0) {
      AddMerged(-kInfinity,
                {{RunOf(v, g), 1}, {model_.off[v], 1}, {Asked(v, g), -1}}, 1);
    }
  }
}

// Delay of the start of each forward op, and of each stage behind its
// recomputation: waiting, and recomputed ops.
void ModelBuilder::AddTimes() {
  Time sum = 0;
  int delay = kNoColumn;
  for (int k = 0; k < graph_.ops + graph_.stages; ++k) {
    std::vector<Term> terms = {{delay, 1}};
    if (k >= graph_.ops) {
      const int t = k - graph_.ops;
      for (int g = FirstOf(t); g < FirstOf(t + 1); ++g) {
        for (int i = 0; i < graph_.ops; ++i) {
          terms.push_back(
              {model_.run[g][i], graph_.time[i] / model_.time_unit});
        }
      }
    }
    const int wait = model_.mip.AddReal(0, kInfinity);
    model_.mip.cost[wait] = 1;
    terms.push_back({wait, 1});
    delay = model_.mip.AddReal(0, kInfinity);
    terms.push_back({delay, -1});
    model_.mip.AddRow(0, terms, 0);
    model_.start.push_back(sum / model_.time_unit);
    model_.delay.push_back(delay);
    sum += k < graph_.ops ? graph_.time[k]
                          : graph_.profile->stages[k - graph_.ops].time;
  }
}

// Out and back take the time between the release and the use.
void ModelBuilder::AddRoundTrip(int v) {
  const Profile& profile = *graph_.profile;
  const int from = profile.values[v].released;
  const int to = graph_.ops + due_[v];
  const double copies =
      graph_.bytes[v] * (1 / profile.d2h + 1 / profile.h2d) / model_.time_unit;
  model_.mip.AddRow(
      -kInfinity,
      {{model_.off[v], copies - (model_.start[to] - model_.start[from + 1])},
       {model_.delay[to], -1},
       {model_.delay[from], 1}},
      0);
}

// `next`: the share of a value's copy that is made, later than `done` of it.
void ModelBuilder::AddProgress(int done, int next, int least) {
  if (done >= 0) AddImplied(done, next, kNoColumn);
  if (least >= 0 && least != next) AddImplied(least, next, kNoColumn);
}

// Progress of copies at each instant: all of a value that has left by it.
// Values that the op before has released had only the time of waiting.
void ModelBuilder::AddWayOut() {
  const double rate = graph_.profile->d2h * model_.time_unit / bytes_unit_;
  std::vector<int> done(graph_.values, kNoColumn);
  for (int k = 1; k < graph_.ops + graph_.stages; ++k) {
    std::vector<Term> all;
    std::vector<Term> fresh;
    for (int v : moved_) {
      const int released = graph_.profile->values[v].released;
      if (released >= k || done[v] == model_.off[v]) continue;
      const int gone = Gone(v, k);
      const int next = gone == model_.off[v] ? gone : model_.mip.AddReal(0, 1);
      AddProgress(done[v], next, gone);
      all.push_back({next, Weight(v)});
      all.push_back({done[v], -Weight(v)});
      if (released == k - 1) fresh.push_back({next, Weight(v)});
      done[v] = next;
    }
    AddCapacity(all, rate, model_.start[k] - model_.start[k - 1], k);
    AddCapacity(fresh, rate, 0, k);
  }
}

// Copies take no more than `rate` times `time` and the delay of instant k.
void ModelBuilder::AddCapacity(std::vector<Term> copies, double rate,
                               double time, int k) {
  if (copies.empty()) return;
  copies.push_back({model_.delay[k], -rate});
  copies.push_back({model_.delay[k - 1], rate});
  model_.mip.AddRow(-kInfinity, copies, rate * time);
}

// Adds the copies back, for which each stage is two steps: a restore requested
// before it may be copied during its waiting and recomputation, and while it
// runs.
void ModelBuilder::AddWayBack() {
  const double rate = graph_.profile->h2d * model_.time_unit / bytes_unit_;
  std::vector<int> done(graph_.values, kNoColumn);
  for (int t = 0; t < graph_.stages; ++t) {
    const int k = graph_.ops + t;
    const int last = FirstOf(t + 1) - 1;
    std::vector<Term> beside;
    std::vector<Term> between;
    for (int v : moved_) {
      const int off = model_.off[v];
      if (done[v] == off) continue;
      if (t > 0) {
        const int next = model_.mip.AddReal(0, 1);
        AddProgress(done[v], next, kNoColumn);
        AddImplied(next, Asked(v, FirstOf(t) - 1), kNoColumn);
        beside.push_back({next, Weight(v)});
        beside.push_back({done[v], -Weight(v)});
        done[v] = next;
      }
      const int next = due_[v] == t ? off : model_.mip.AddReal(0, 1);
      AddProgress(done[v], next, Back(v, last));
      between.push_back({next, Weight(v)});
      between.push_back({done[v], -Weight(v)});
      done[v] = next;
    }
    if (!beside.empty()) {
      model_.mip.AddRow(-kInfinity, beside,
                        rate * (model_.start[k] - model_.start[k - 1]));
    }
    AddCapacity(between, rate, 0, k);
  }
}

}  // namespace ebbtide
