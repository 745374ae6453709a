#include "planner/part_menu.h"

#include <algorithm>

#include "planner/check.h"
#include "planner/graph_plan.h"

namespace ebbtide {
namespace {

bool Beats(const PartOption& a, const PartOption& b) {
  return a.save <= b.save && a.backward <= b.backward && a.time <= b.time;
}

void RemoveBeaten(std::vector<PartOption>* options) {
  std::vector<PartOption> kept;
  for (PartOption& option : *options) {
    const bool beaten = std::any_of(
        kept.begin(), kept.end(),
        [&](const PartOption& other) { return Beats(other, option); });
    if (beaten) continue;
    kept.erase(std::remove_if(kept.begin(), kept.end(),
                              [&](const PartOption& other) {
                                return Beats(option, other);
                              }),
               kept.end());
    kept.push_back(std::move(option));
  }
  *options = std::move(kept);
}

// Distance in bytes saved, bytes at the peak and time. Times are taken relative
// to their median, what is far above it counts little: a few options that take
// many times as long as the others would make those look alike.
class Distances {
 public:
  explicit Distances(const std::vector<PartOption>& options) {
    std::vector<Time> times;
    for (const PartOption& option : options) {
      save_ = std::max(save_, static_cast<double>(option.save));
      backward_ = std::max(backward_, static_cast<double>(option.backward));
      times.push_back(option.time);
    }
    const auto median = times.begin() + times.size() / 2;
    std::nth_element(times.begin(), median, times.end());
    time_ = std::max(time_, *median);
  }
  double Between(const PartOption& a, const PartOption& b) const {
    return std::abs(static_cast<double>(a.save - b.save)) / save_ +
           std::abs(static_cast<double>(a.backward - b.backward)) / backward_ +
           2 * std::abs(Share(a.time) - Share(b.time));
  }

 private:
  double Share(Time time) const { return time / (time + time_); }

  double save_ = 1;
  double backward_ = 1;
  double time_ = 1e-9;
};

int64_t RerunPeak(const PartProfile& part) {
  const Profile& profile = part.profile;
  std::vector<std::vector<int>> leaving(profile.ops.size());
  for (size_t n = 0; n < part.values.size(); ++n) {
    if (part.values[n] < 0) continue;
    const size_t last = profile.values[n].released;
    if (last < leaving.size()) leaving[last].push_back(n);
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (size_t i = 0; i < profile.ops.size(); ++i) {
    for (int n : profile.ops[i].outputs) live += Count(profile.values[n].bytes);
    peak = std::max(peak, live + Count(profile.ops[i].scratch));
    for (int n : leaving[i]) live -= Count(profile.values[n].bytes);
  }
  return peak;
}

class MenuMaker {
 public:
  MenuMaker(PartProfile* part, const Graph& graph, uint64_t seed)
      : part_(*part), graph_(graph), seed_(seed), evaluator_(graph) {}

  PartMenu Make(const MenuEffort& effort) {
    const PartOption all = Note(KeepAll(graph_, false));
    const PartOption least = Note(Solve(1, 0, effort.evaluations).least);
    const int64_t fewest = Fewest();
    for (int p = 0; p < effort.peaks; ++p) {
      const int64_t peak = Between(least.backward, all.backward, p,
                                   std::max(1, effort.peaks - 1));
      for (int s = 0; s < effort.saves; ++s) {
        const int64_t save =
            std::min(peak, Between(fewest, all.save, s, effort.saves));
        const GraphPlan plan = Solve(peak, peak - save, effort.evaluations);
        Note(plan.feasible ? plan.draft : plan.least);
      }
    }
    Vary(evaluator_.evaluations() + effort.changes);
    Thin(effort.options, &menu_.options);
    TakeDrafts();
    menu_.rerun_peak = RerunPeak(part_);
    return std::move(menu_);
  }

 private:
  // From low to high, denser near low, where time rises steeply.
  static int64_t Between(int64_t low, int64_t high, int k, int parts) {
    const double x = static_cast<double>(k) / parts;
    return low + static_cast<int64_t>((high - low) * x * x);
  }

  // What every plan saves.
  int64_t Fewest() const {
    int64_t bytes = 0;
    for (int n = 0; n < graph_.values; ++n) {
      const auto needs = graph_.needs[0];
      if (graph_.pinned[n] ||
          std::binary_search(needs.begin(), needs.end(), n)) {
        bytes += graph_.bytes[n];
      }
    }
    return bytes;
  }

  // `room` of the budget is taken by others between forward and backward.
  GraphPlan Solve(int64_t budget, int64_t room, int64_t evaluations) {
    part_.profile.stages[0].during = Bytes{room};
    GraphPlanOptions options;
    options.budget = std::max<int64_t>(1, budget);
    options.seed = seed_;
    options.evaluations = evaluations;
    GraphPlan plan = SolveGraph(graph_, options);
    part_.profile.stages[0].during = Bytes{0};
    return plan;
  }

  // Adds the option unless another beats it.
  PartOption Note(const Draft& draft) {
    Assess(&evaluator_, draft, &evaluation_);
    PartOption option;
    option.save = evaluation_.stage_peak[0];
    for (size_t i = 0; i < part_.other.size(); ++i) {
      option.forward = std::max(option.forward,
                                evaluation_.forward_peak[i] + part_.other[i]);
    }
    option.backward = *std::max_element(evaluation_.stage_peak.begin(),
                                        evaluation_.stage_peak.end());
    option.time = evaluation_.overhead;
    option.draft = static_cast<int>(drafts_.size());
    std::vector<PartOption>& options = menu_.options;
    const auto beats = [&](const PartOption& other) {
      return Beats(other, option);
    };
    if (evaluation_.broken ||
        std::any_of(options.begin(), options.end(), beats)) {
      return option;
    }
    const auto beaten = [&](const PartOption& other) {
      return Beats(option, other);
    };
    options.erase(std::remove_if(options.begin(), options.end(), beaten),
                  options.end());
    options.push_back(option);
    drafts_.push_back(draft);
    return option;
  }

  // Every option with one value kept, dropped and held once it is rebuilt, or
  // dropped after each use; in the order they were found.
  void Vary(int64_t last) {
    for (size_t d = 0; d < drafts_.size(); ++d) {
      const auto is_it = [&](const PartOption& option) {
        return option.draft == static_cast<int>(d);
      };
      if (std::none_of(menu_.options.begin(), menu_.options.end(), is_it)) {
        continue;
      }
      for (int n = 0; n < graph_.values; ++n) {
        if (!graph_.keepable[n] || graph_.pinned[n]) continue;
        if (evaluator_.evaluations() >= last) return;
        for (const auto& [held, kept] : {std::pair(1, 1), {1, 0}, {0, 0}}) {
          Draft changed = drafts_[d];
          changed.bits.SetRow(n, held);
          changed.bits.Set(n, -1, kept);
          Note(changed);
        }
      }
    }
  }

  // Those of the options that are left.
  void TakeDrafts() {
    for (PartOption& option : menu_.options) {
      menu_.drafts.push_back(std::move(drafts_[option.draft]));
      option.draft = static_cast<int>(menu_.drafts.size()) - 1;
    }
  }

  PartProfile& part_;
  const Graph& graph_;
  const uint64_t seed_;
  Evaluator evaluator_;
  Evaluation evaluation_;
  PartMenu menu_;
  std::vector<Draft> drafts_;
};

}  // namespace

void Assess(Evaluator* evaluator, const Draft& draft, Evaluation* result) {
  evaluator->Evaluate(draft.bits, draft.offloaded, result);
}

void Thin(size_t most, std::vector<PartOption>* options) {
  RemoveBeaten(options);
  if (options->size() <= most) return;
  const Distances distances(*options);
  std::vector<double> nearest(options->size(),
                              std::numeric_limits<double>::infinity());
  std::vector<PartOption> kept;
  // The fastest first, then always the one farthest from those chosen.
  size_t next = 0;
  for (size_t k = 1; k < options->size(); ++k) {
    if ((*options)[k].time < (*options)[next].time) next = k;
  }
  while (kept.size() < most) {
    kept.push_back((*options)[next]);
    for (size_t k = 0; k < options->size(); ++k) {
      nearest[k] =
          std::min(nearest[k], distances.Between(kept.back(), (*options)[k]));
    }
    next = std::max_element(nearest.begin(), nearest.end()) - nearest.begin();
  }
  *options = std::move(kept);
}

PartMenu SolvePart(PartProfile* part, const MenuEffort& effort, uint64_t seed) {
  const auto graph = CompileGraph(part->profile, true);
  EBBTIDE_CHECK(graph.ok());
  return MenuMaker(part, *graph, seed).Make(effort);
}

}  // namespace ebbtide
