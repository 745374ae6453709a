#include "planner/hierarchy.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// Choices that the top is merged with, of each number of parts.
constexpr size_t kTopFront = 512;

MergeEffort MergeEffortFor(size_t menus) {
  if (menus > kVeryManyMenus) return {.limits = 6, .front = 64, .options = 32};
  if (menus > kManyMenus) return {.limits = 8, .front = 128, .options = 64};
  return {};
}

}  // namespace

// A part that is not split, its draft, and the parts above it, outermost first,
// whose forward is recomputed.
struct Hierarchy::Choice {
  int part;
  int draft;
  std::vector<int> again;
};

Hierarchy::Hierarchy(const Graph& graph, double little, uint64_t seed,
                     int64_t evaluations, absl::Time deadline)
    : graph_(graph),
      uses_(graph, little),
      parts_(PartitionGraph(graph, uses_)),
      facts_(parts_.size()) {
  std::vector<PartProfile> profiles =
      DistinctProfiles(graph, uses_, parts_, &facts_);
  menus_ = SolveParts(&profiles, seed, evaluations, deadline);
  const MergeEffort effort = MergeEffortFor(profiles.size());
  for (size_t p = 0; p + 1 < parts_.size(); ++p) {
    if (parts_[p].children.empty()) continue;
    MakeMenu(static_cast<int>(p), effort);
  }
}

std::vector<RowPart> Hierarchy::RowOf(const Part& part, int64_t base_other,
                                      int64_t base_before) const {
  std::vector<RowPart> row;
  for (int child : part.children) {
    const PartFacts& facts = facts_[child];
    row.push_back({&menus_[facts.menu], facts.base_other - base_other,
                   facts.base_before - base_before});
  }
  return row;
}

RowFacts Hierarchy::FactsOf(const Part& part, int64_t base_before) const {
  RowFacts facts;
  if (part.first_stage < part.end_stage) {
    const Stage& first = graph_.profile->stages[part.first_stage];
    facts.first_before = Count(first.before) - base_before;
  }
  // Ops are recomputed for the needs of the part's stages, backward from them.
  std::vector<char> wanted(part.end - part.begin, 0);
  const auto stays = [&](int v) {
    return graph_.pinned[v] || graph_.held[v] >= part.first_stage ||
           (uses_.kept[v] && uses_.Outside(v, part));
  };
  const auto want = [&](int v) {
    const int i = graph_.op[v];
    if (i < part.begin || i >= part.end || stays(v)) return;
    wanted[i - part.begin] = 1;
  };
  for (int t = part.first_stage; t < part.end_stage; ++t) {
    for (int v : graph_.needs[t]) want(v);
  }
  for (int i = part.end - 1; i >= part.begin; --i) {
    for (int v : graph_.outputs[i]) {
      if (graph_.saved[v] && stays(v)) facts.outside_save += graph_.bytes[v];
    }
    if (!wanted[i - part.begin]) continue;
    facts.again_time += graph_.time[i];
    for (int v : graph_.inputs[i]) want(v);
  }
  return facts;
}

void Hierarchy::MakeMenu(int p, const MergeEffort& effort) {
  const Part& part = parts_[p];
  PartFacts& facts = facts_[p];
  facts.base_other = facts.base_before = std::numeric_limits<int64_t>::max();
  for (int child : part.children) {
    facts.base_other = std::min(facts.base_other, facts_[child].base_other);
    facts.base_before = std::min(facts.base_before, facts_[child].base_before);
  }
  const std::vector<RowPart> row =
      RowOf(part, facts.base_other, facts.base_before);
  const RowFacts row_facts = FactsOf(part, facts.base_before);
  std::string signature =
      absl::StrCat(row_facts.outside_save, " ", row_facts.again_time, " ",
                   row_facts.first_before);
  for (size_t k = 0; k < row.size(); ++k) {
    absl::StrAppend(&signature, " ", facts_[part.children[k]].menu, " ",
                    row[k].base_other, " ", row[k].base_before);
  }
  const auto [it, fresh] = split_menus_.try_emplace(signature, menus_.size());
  facts.menu = it->second;
  if (fresh) menus_.push_back(MergeMenu(row, row_facts, effort));
}

std::vector<int> Hierarchy::Top() const {
  const Part& root = parts_.back();
  if (!root.children.empty()) return root.children;
  return {static_cast<int>(parts_.size()) - 1};
}

std::optional<Draft> Hierarchy::Within(int64_t limit) const {
  const Part whole{.children = Top()};
  const std::vector<PartOption> merged =
      MergeRow(RowOf(whole, 0, 0), {limit, limit, -1}, kTopFront);
  if (merged.empty()) return std::nullopt;
  // They are in the order of bytes saved, so that the last is the fastest.
  std::vector<int> again;
  std::vector<Choice> choices;
  for (size_t k = 0; k < whole.children.size(); ++k) {
    Choose(whole.children[k], merged.back().children[k], &again, &choices);
  }
  Draft draft = KeepAll(graph_, false);
  for (const Choice& choice : choices) WriteRows(choice, &draft);
  for (const Choice& choice : choices) {
    const PartFacts& facts = facts_[choice.part];
    WriteStages(graph_, parts_[choice.part], facts,
                menus_[facts.menu].drafts[choice.draft].bits, &draft);
  }
  return draft;
}

void Hierarchy::Choose(int p, int number, std::vector<int>* again,
                       std::vector<Choice>* choices) const {
  const PartOption& option = MenuOf(p).options[number];
  if (option.draft >= 0) {
    choices->push_back({p, option.draft, *again});
    return;
  }
  if (option.again) again->push_back(p);
  for (size_t k = 0; k < option.children.size(); ++k) {
    Choose(parts_[p].children[k], option.children[k], again, choices);
  }
  if (option.again) again->pop_back();
}

// Sets the presence of the part's own values until its stages: from the loss
// on, or from the recomputation of a part's forward, or not at all.
void Hierarchy::WriteRows(const Choice& choice, Draft* draft) const {
  const Part& part = parts_[choice.part];
  const PartFacts& facts = facts_[choice.part];
  const Retention& bits = menus_[facts.menu].drafts[choice.draft].bits;
  for (size_t n = 0; n < facts.values.size(); ++n) {
    const int v = facts.values[n];
    if (!facts.own[n] || graph_.pinned[v]) continue;
    const bool kept = bits.Get(n, -1);
    int from = -1;
    for (int p : choice.again) {
      if (!uses_.Outside(v, parts_[p])) from = parts_[p].first_stage;
    }
    draft->bits.SetRow(v, kept && from < 0);
    if (!kept || from < 0) continue;
    for (int t = from; t < part.first_stage; ++t) draft->bits.Set(v, t, 1);
  }
}

}  // namespace ebbtide
