#include "planner/ilp/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/ilp/model_builder.h"

namespace ebbtide {
namespace {

// At 230,000 HiGHS takes 1.1 GB and 9 s from one look at the clock to the next.
constexpr int64_t kMostCells = 300'000;

// About half of the places and shares of each movable value are variables.
int64_t MoveCells(const Graph& graph, int passes, bool offload) {
  if (!offload || graph.profile->d2h <= 0 || graph.profile->h2d <= 0) return 0;
  const int64_t movable =
      std::count(graph.movable.begin(), graph.movable.end(), 1);
  return movable * (graph.ops + 3 * graph.stages * passes);
}

}  // namespace

ModelBuilder::ModelBuilder(const Graph& graph, int64_t budget, int passes,
                           bool offload)
    : graph_(graph),
      budget_(budget),
      passes_(passes),
      segments_(graph.stages * passes),
      moves_(offload && graph.profile->d2h > 0 && graph.profile->h2d > 0) {
  model_.passes = passes;
  SetUnits();
  FindLastUses();
}

Model ModelBuilder::Build() {
  model_.stay.assign(segments_ + 1, std::vector<int>(graph_.values, kNoColumn));
  model_.run.assign(segments_, std::vector<int>(graph_.ops, kNoColumn));
  made_.assign(segments_, std::vector<int>(graph_.values, kNoColumn));
  AddStart();
  AddMoves();
  for (int g = 0; g < segments_; ++g) {
    AddRuns(g);
    AddMade(g);
    AddNextStays(g);
    AddFlow(g);
  }
  AddForward();
  AddStageEnds();
  AddLater();
  AddWays();
  return std::move(model_);
}

// Whole numbers where they are small, so that nothing is rounded; otherwise
// sizes for which the solver's absolute tolerance is far below a byte.
void ModelBuilder::SetUnits() {
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
double ModelBuilder::Room(int t, int64_t bytes) {
  for (int v = 0; v < graph_.values; ++v) {
    if (graph_.saved[v] && Held(v, t)) bytes += graph_.bytes[v];
  }
  return RoomBeside(bytes);
}

double ModelBuilder::RoomBeside(int64_t bytes) {
  if (bytes > budget_) model_.impossible = true;
  return std::max<int64_t>(0, budget_ - bytes) / bytes_unit_;
}

// Finds the last stage that needs a value, itself or to recompute another.
void ModelBuilder::FindLastUses() {
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

void ModelBuilder::AddStart() {
  for (int v = 0; v < graph_.values; ++v) {
    if (graph_.keepable[v] && graph_.held[v] < 0 && last_use_[v] >= 0) {
      model_.stay[0][v] = model_.mip.AddBinary(0);
    }
  }
}

bool ModelBuilder::CanBeRead(int v, int g) const {
  return Held(v, StageOf(g)) || model_.stay[g][v] >= 0 ||
         model_.run[g][graph_.op[v]] >= 0;
}

void ModelBuilder::AddRuns(int g) {
  const int t = StageOf(g);
  for (int i = 0; i < graph_.ops; ++i) {
    const auto wanted = [&](int v) { return !Held(v, t) && last_use_[v] >= t; };
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
      if (!Held(u, t)) AddReadable(run, u, g, RunOf(u, g));
    }
  }
}

// a <= b + c
void ModelBuilder::AddImplied(int a, int b, int c) {
  model_.mip.AddRow(0, {{b, 1}, {c, 1}, {a, -1}}, kInfinity);
}

// a only if v is there in segment g, made by `makes` or back from the host.
void ModelBuilder::AddReadable(int a, int v, int g, int makes) {
  std::vector<Term> there = {{model_.stay[g][v], 1}, {makes, 1}, {a, -1}};
  AddBack(v, g, 1, &there);
  AddMerged(0, there, kInfinity);
}

// a + b <= 1
void ModelBuilder::AddExclusive(int a, int b) {
  if (a < 0 || b < 0) return;
  model_.mip.AddRow(-kInfinity, {{a, 1}, {b, 1}}, 1);
}

// An op that runs makes its absent outputs: at least one.
void ModelBuilder::AddMade(int g) {
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

// Bounds the values that may be there when the next segment begins.
void ModelBuilder::AddNextStays(int g) {
  if (g + 1 == segments_) return;
  const int next = StageOf(g + 1);
  for (int v = 0; v < graph_.values; ++v) {
    if (last_use_[v] < next || Held(v, next)) continue;
    const bool possible =
        Held(v, StageOf(g)) ? graph_.keepable[v] : CanBeRead(v, g);
    if (possible) model_.stay[g + 1][v] = model_.mip.AddBinary(0);
  }
}

absl::Status CheckSize(const Graph& graph, int passes, bool offload) {
  const int64_t cells =
      static_cast<int64_t>(graph.stages) * passes * (graph.values + graph.ops) +
      MoveCells(graph, passes, offload);
  if (cells <= kMostCells) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("an exact program of ", graph.stages, " stages, ", graph.ops,
                   " ops and ", graph.values, " values would have ", cells,
                   " variables or more, expected at most ", kMostCells));
}

Model BuildModel(const Graph& graph, int64_t budget, int passes, bool offload) {
  return ModelBuilder(graph, budget, passes, offload).Build();
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
  const auto first = [&](const std::vector<std::vector<int>>& rows, int v) {
    int k = 0;
    while (!set(rows[k][v])) ++k;
    return k;
  };
  for (int v = 0; v < static_cast<int>(model.off.size()); ++v) {
    if (!set(model.off[v])) continue;
    schedule.moves.push_back({.value = v,
                              .gone = first(model.gone, v),
                              .asked = first(model.asked, v),
                              .back = first(model.back, v)});
  }
  for (int k = 0; k < static_cast<int>(model.delay.size()); ++k) {
    schedule.start.push_back((model.start[k] + values[model.delay[k]]) *
                             model.time_unit);
  }
  return schedule;
}

}  // namespace ebbtide
