#include "planner/part_menu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/time/clock.h"
#include "planner/check.h"
#include "planner/evaluator.h"
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
      : part_(*part), graph_(graph), seed_(seed), evaluator_(graph) {
    for (int n = 0; n < graph.values; ++n) {
      if (graph.pinned[n] || !graph.keepable[n] || NeededOutside(n)) continue;
      free_.push_back(n);
    }
    for (Time time : graph.time) tick_ += time * 1e-6;
  }

  PartMenu Make(const MenuEffort& effort) {
    Descend(effort.drops);
    if (effort.saves * effort.peaks > 0) SolveWithinLimits(effort);
    Vary(evaluations_ + effort.changes);
    Thin(effort.options, &menu_.options);
    TakeDrafts();
    menu_.rerun_peak = RerunPeak(part_);
    return std::move(menu_);
  }

 private:
  // Treatment of a value: kept, recomputed once and held, or recomputed for
  // each use.
  enum Row { kKept, kHeld, kDropped };

  bool NeededOutside(int n) const {
    const auto needs = graph_.needs[0];
    return std::binary_search(needs.begin(), needs.end(), n);
  }

  // From low to high, denser near low, where time rises steeply.
  static int64_t Between(int64_t low, int64_t high, int k, int parts) {
    const double x = static_cast<double>(k) / parts;
    return low + static_cast<int64_t>((high - low) * x * x);
  }

  // From keeping all to dropping all, then to holding nothing.
  void Descend(int64_t drops) {
    Draft draft = KeepAll(graph_, false);
    PartOption at = Note(draft);
    std::vector<int> left = free_;
    const auto go_on = [&] { return !left.empty() && evaluations_ < drops; };
    while (go_on()) at = DropBest(kHeld, at, &left, &draft);
    left = free_;
    while (go_on()) at = DropBest(kDropped, at, &left, &draft);
  }

  // The value that saves most, at the loss or at the peak, for its time.
  PartOption DropBest(Row row, const PartOption& at, std::vector<int>* left,
                      Draft* draft) {
    PartOption best;
    size_t chosen = 0;
    double best_rate = -1;
    for (size_t k = 0; k < left->size(); ++k) {
      const PartOption option = Note(With(*draft, (*left)[k], row));
      const double bytes =
          std::max<double>(0, row == kHeld ? at.save - option.save
                                           : at.backward - option.backward);
      const double rate =
          (bytes + 1) / std::max(1e-9, option.time - at.time + tick_);
      if (rate <= best_rate) continue;
      best_rate = rate;
      chosen = k;
      best = option;
    }
    *draft = With(*draft, (*left)[chosen], row);
    left->erase(left->begin() + chosen);
    return best;
  }

  static Draft With(const Draft& draft, int value, Row row) {
    Draft changed = draft;
    changed.bits.SetRow(value, row != kDropped);
    changed.bits.Set(value, -1, row == kKept);
    return changed;
  }

  void SolveWithinLimits(const MenuEffort& effort) {
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
  }

  // Bytes that every plan saves.
  int64_t Fewest() const {
    int64_t bytes = 0;
    for (int n = 0; n < graph_.values; ++n) {
      if (graph_.pinned[n] || graph_.held[n] == graph_.stages ||
          NeededOutside(n)) {
        bytes += graph_.saved[n] ? graph_.bytes[n] : 0;
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
    ++evaluations_;
    evaluator_.Evaluate(draft, &evaluation_);
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

  // Every option with one value changed, in the order they were found.
  void Vary(int64_t last) {
    for (size_t d = 0; d < drafts_.size(); ++d) {
      const auto is_it = [&](const PartOption& option) {
        return option.draft == static_cast<int>(d);
      };
      if (std::none_of(menu_.options.begin(), menu_.options.end(), is_it)) {
        continue;
      }
      for (int n : free_) {
        if (evaluations_ >= last) return;
        for (Row row : {kKept, kHeld, kDropped}) Note(With(drafts_[d], n, row));
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
  int64_t evaluations_ = 0;
  Evaluation evaluation_;
  PartMenu menu_;
  std::vector<Draft> drafts_;
  std::vector<int> free_;  // values that may be kept and dropped
  Time tick_ = 1e-9;       // a time that does not matter
};

// By how many parts there are to solve.
MenuEffort EffortFor(size_t menus, int64_t evaluations) {
  MenuEffort effort;
  if (menus > kVeryManyMenus) {
    effort.saves = effort.peaks = 0;
    effort.evaluations = 0;
    effort.changes = 1000;
    effort.options = 32;
  } else if (menus > kManyMenus) {
    effort.saves = 4;
    effort.peaks = 2;
    effort.evaluations = 100;
    effort.changes = 10000;
    effort.options = 96;
  }
  if (evaluations > 0) {
    const int64_t each = evaluations / std::max<int64_t>(1, menus);
    effort.changes = std::min(effort.changes, each);
    const int solves = effort.saves * effort.peaks + 1;
    effort.evaluations = std::min(effort.evaluations, each / solves);
    // The search cannot do with fewer.
    constexpr int64_t kLeast = 40;
    if (effort.evaluations < kLeast) effort.saves = 0;
  }
  return effort;
}

}  // namespace

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

std::vector<PartMenu> SolveParts(std::vector<PartProfile>* parts, uint64_t seed,
                                 int64_t evaluations, absl::Time deadline) {
  const MenuEffort effort = EffortFor(parts->size(), evaluations);
  std::vector<PartMenu> menus;
  for (PartProfile& part : *parts) {
    MenuEffort now = effort;
    if (absl::Now() >= deadline) now.saves = now.changes = 0;
    menus.push_back(SolvePart(&part, now, seed));
  }
  return menus;
}

}  // namespace ebbtide
