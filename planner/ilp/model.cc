#include "planner/ilp/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// Of tables and of columns: a program beyond it does not get past presolve in
// any time that somebody waits.
constexpr int64_t kMostCells = 4'000'000;

// A real variable of one segment: bytes of v that left after op k.
struct Leave {
  int v = 0;
  int column = kNoColumn;
};

class Builder {
 public:
  Builder(const Graph& graph, int64_t budget, int passes)
      : graph_(graph),
        budget_(budget),
        passes_(passes),
        segments_(graph.stages * passes) {
    model_.passes = passes;
    SetUnits();
    FindLastUses();
  }

  Model Build() {
    model_.stay.assign(segments_ + 1, std::vector<int>(graph_.values, -1));
    model_.run.assign(segments_, std::vector<int>(graph_.ops, -1));
    made_.assign(segments_, std::vector<int>(graph_.values, -1));
    AddStart();
    for (int g = 0; g < segments_; ++g) {
      AddRuns(g);
      AddMade(g);
      AddNextStays(g);
      AddFlow(g);
    }
    AddForward();
    AddStageEnds();
    AddLater();
    return std::move(model_);
  }

 private:
  int StageOf(int g) const { return g / passes_; }
  bool EndsStage(int g) const { return (g + 1) % passes_ == 0; }
  bool Held(int v, int t) const { return graph_.held[v] >= t; }
  double Weight(int v) const { return graph_.bytes[v] / bytes_unit_; }

  // Whole numbers where they are small, so that nothing is rounded; otherwise
  // sizes for which the solver's absolute tolerance is far below a byte.
  void SetUnits() {
    int64_t common = 0;
    for (int64_t bytes : graph_.bytes) common = std::gcd(common, bytes);
    for (int64_t bytes : graph_.scratch) common = std::gcd(common, bytes);
    bytes_unit_ = std::max<int64_t>(1, common);
    if (budget_ / bytes_unit_ > 1e5) bytes_unit_ = budget_ / 1e4;
    const Time total =
        std::accumulate(graph_.time.begin(), graph_.time.end(), Time{0});
    if (total > 1e5) model_.time_unit = total / 1e4;
  }

  // Room for values beside `bytes` and what the script holds at stage t.
  double Room(int t, int64_t bytes) {
    for (int v = 0; v < graph_.values; ++v) {
      if (graph_.saved[v] && Held(v, t)) bytes += graph_.bytes[v];
    }
    return RoomBeside(bytes);
  }

  double RoomBeside(int64_t bytes) {
    if (bytes > budget_) model_.impossible = true;
    return std::max<int64_t>(0, budget_ - bytes) / bytes_unit_;
  }

  // The last stage that needs a value, itself or to rebuild another.
  void FindLastUses() {
    last_use_.assign(graph_.values, -1);
    last_need_.assign(graph_.values, -1);
    for (int t = 0; t < graph_.stages; ++t) {
      for (int v : graph_.needs[t]) last_use_[v] = last_need_[v] = t;
    }
    for (int i = graph_.ops - 1; i >= 0; --i) {
      if (!graph_.may_replay[i]) continue;
      int last = -1;
      for (int v : graph_.outputs[i]) last = std::max(last, last_use_[v]);
      for (int v : graph_.inputs[i]) {
        last_use_[v] = std::max(last_use_[v], last);
      }
    }
  }

  void AddStart() {
    for (int v = 0; v < graph_.values; ++v) {
      if (graph_.keepable[v] && graph_.held[v] < 0 && last_use_[v] >= 0) {
        model_.stay[0][v] = model_.mip.AddBinary(0);
      }
    }
  }

  bool CanBeRead(int v, int g) const {
    return Held(v, StageOf(g)) || model_.stay[g][v] >= 0 ||
           model_.run[g][graph_.op[v]] >= 0;
  }

  void AddRuns(int g) {
    const int t = StageOf(g);
    for (int i = 0; i < graph_.ops; ++i) {
      const auto wanted = [&](int v) {
        return !Held(v, t) && last_use_[v] >= t;
      };
      const auto there = [&](int v) { return CanBeRead(v, g); };
      const absl::Span<const int> outputs = graph_.outputs[i];
      const absl::Span<const int> inputs = graph_.inputs[i];
      if (!graph_.may_replay[i] ||
          !std::any_of(outputs.begin(), outputs.end(), wanted) ||
          !std::all_of(inputs.begin(), inputs.end(), there)) {
        continue;
      }
      const int run = model_.mip.AddBinary(graph_.time[i] / model_.time_unit);
      model_.run[g][i] = run;
      for (int u : inputs) {
        if (!Held(u, t)) AddImplied(run, model_.stay[g][u], RunOf(u, g));
      }
    }
  }

  int RunOf(int v, int g) const { return model_.run[g][graph_.op[v]]; }

  // a <= b + c
  void AddImplied(int a, int b, int c) {
    model_.mip.AddRow(0, {{b, 1}, {c, 1}, {a, -1}}, kInfinity);
  }

  // a + b <= 1
  void AddExclusive(int a, int b) {
    if (a < 0 || b < 0) return;
    model_.mip.AddRow(-kInfinity, {{a, 1}, {b, 1}}, 1);
  }

  // An op that runs makes those of its outputs that are away: at least one.
  void AddMade(int g) {
    for (int i = 0; i < graph_.ops; ++i) {
      const int run = model_.run[g][i];
      if (run < 0) continue;
      std::vector<int> outputs;
      for (int v : graph_.outputs[i]) {
        if (!Held(v, StageOf(g))) outputs.push_back(v);
      }
      std::vector<Term> some = {{run, -1}};
      for (int v : outputs) {
        const int stay = model_.stay[g][v];
        int made = run;
        if (stay >= 0 && outputs.size() > 1) {
          made = model_.mip.AddReal(0, 1);
          AddImplied(run, stay, made);
          AddImplied(made, run, kNoColumn);
        }
        AddExclusive(made, stay);
        made_[g][v] = made;
        if (made != run) some.push_back({made, 1});
      }
      if (some.size() == outputs.size() + 1 && outputs.size() > 1) {
        model_.mip.AddRow(0, some, kInfinity);
      }
    }
  }

  // What may be there when the next segment begins.
  void AddNextStays(int g) {
    if (g + 1 == segments_) return;
    const int next = StageOf(g + 1);
    for (int v = 0; v < graph_.values; ++v) {
      if (last_use_[v] < next || Held(v, next)) continue;
      const bool possible =
          Held(v, StageOf(g)) ? graph_.keepable[v] : CanBeRead(v, g);
      if (possible) model_.stay[g + 1][v] = model_.mip.AddBinary(0);
    }
  }

  // Comings and goings of values in a segment, and the bytes of what is there.
  void AddFlow(int g) {
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
  void AddLeaves(int v, int g, const std::vector<int>& readers, int next) {
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

  void AddMemory(int g) {
    const int t = StageOf(g);
    const Stage& stage = graph_.profile->stages[t];
    const double room = Room(t, Count(stage.before));
    std::vector<Term> live;  // of what is there
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
  std::vector<Term> SumUp(std::vector<Term> terms, double most) {
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

  void AddForward() {
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
  void AddStageEnds() {
    for (int t = 0; t + 1 < graph_.stages; ++t) {
      const int next = (t + 1) * passes_;
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
  void AddLater() {
    std::vector<int> later(graph_.ops, kNoColumn);
    for (int t = graph_.stages - 1; t >= 0; --t) {
      for (int i = 0; i < graph_.ops; ++i) later[i] = AddLaterOf(i, t, later);
      for (int v = 0; v < graph_.values; ++v) {
        if (last_need_[v] < t || Held(v, t)) continue;
        model_.mip.AddRow(
            1, {{model_.stay[t * passes_][v], 1}, {later[graph_.op[v]], 1}},
            kInfinity);
      }
      for (int i = 0; i < graph_.ops; ++i) {
        if (later[i] < 0) continue;
        for (int u : graph_.inputs[i]) {
          if (Held(u, t)) continue;
          AddImplied(later[i], model_.stay[t * passes_][u],
                     later[graph_.op[u]]);
        }
      }
    }
  }

  int AddLaterOf(int i, int t, const std::vector<int>& later) {
    std::vector<Term> terms = {{later[i], 1}};
    for (int g = t * passes_; g < (t + 1) * passes_; ++g) {
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

  const Graph& graph_;
  const int64_t budget_;
  const int passes_;
  const int segments_;
  double bytes_unit_ = 1;
  std::vector<int> last_use_;   // of values
  std::vector<int> last_need_;  // of values
  std::vector<std::vector<int>> made_;
  std::vector<std::vector<Leave>> leaves_;  // of ops, in one segment
  Model model_;
};

}  // namespace

absl::StatusOr<Model> BuildModel(const Graph& graph, int64_t budget,
                                 int passes) {
  const int64_t cells =
      static_cast<int64_t>(graph.stages) * passes * (graph.values + graph.ops);
  if (cells > kMostCells) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an exact program of ", graph.stages, " stages, ", graph.ops,
        " ops and ", graph.values, " values would have ", cells,
        " variables or more, expected at most ", kMostCells));
  }
  return Builder(graph, budget, passes).Build();
}

Schedule Decode(const Model& model, const std::vector<double>& values) {
  const auto set = [&](int column) {
    return column >= 0 && values[column] > 0.5;
  };
  Schedule schedule{.passes = model.passes};
  for (const std::vector<int>& stay : model.stay) {
    schedule.stay.emplace_back();
    for (int column : stay) schedule.stay.back().push_back(set(column));
  }
  for (const std::vector<int>& run : model.run) {
    schedule.run.emplace_back();
    for (int i = 0; i < static_cast<int>(run.size()); ++i) {
      if (set(run[i])) schedule.run.back().push_back(i);
    }
  }
  return schedule;
}

}  // namespace ebbtide
