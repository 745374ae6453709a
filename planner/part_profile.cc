#include "planner/part_profile.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace ebbtide {
namespace {

// So many copies of ops for what comes in, and no more: then it is taken to be
// there.
constexpr size_t kMostCopies = 64;

class Builder {
 public:
  Builder(const Graph& graph, const Uses& uses, const Part& part)
      : graph_(graph), uses_(uses), part_(part) {}

  PartProfile Build() {
    CollectOps();
    AddInputs();
    for (int i : ops_) AddOp(i);
    AddStages();
    Release();
    SetBaseOther();
    return std::move(result_);
  }

 private:
  bool Own(int op) const { return part_.begin <= op && op < part_.end; }

  // An input through v is there whenever the part runs.
  bool Given(int v) const {
    return uses_.kept[v] || graph_.held[v] >= part_.end_stage - 1 ||
           !graph_.replayable[graph_.op[v]];
  }

  void CollectOps() {
    for (int i = part_.begin; i < part_.end; ++i) ops_.push_back(i);
    std::vector<int> wanted;
    const auto want = [&](int v) {
      if (!Own(graph_.op[v]) && !Given(v)) wanted.push_back(graph_.op[v]);
    };
    for (int i : ops_) {
      for (int v : graph_.inputs[i]) want(v);
    }
    for (int t = part_.first_stage; t < part_.end_stage; ++t) {
      for (int v : graph_.needs[t]) want(v);
    }
    std::vector<int> copies;
    for (size_t k = 0; k < wanted.size() && copies.size() < kMostCopies; ++k) {
      const int op = wanted[k];
      if (std::find(copies.begin(), copies.end(), op) != copies.end()) continue;
      copies.push_back(op);
      for (int v : graph_.inputs[op]) want(v);
    }
    ops_.insert(ops_.end(), copies.begin(), copies.end());
    std::sort(ops_.begin(), ops_.end());
    for (int i : ops_) {
      for (int v : graph_.outputs[i]) made_.insert(v);
    }
  }

  // One op that takes no time makes all that comes in.
  void AddInputs() {
    const auto add = [&](int v) {
      if (made_.contains(v) || local_.contains(v)) return;
      if (result_.profile.ops.empty()) {
        result_.profile.ops.emplace_back().replayable = true;
      }
      result_.profile.ops[0].outputs.push_back(Number(v, 0));
    };
    for (int i : ops_) {
      for (int v : graph_.inputs[i]) add(v);
    }
    for (int t = part_.first_stage; t < part_.end_stage; ++t) {
      for (int v : graph_.needs[t]) add(v);
    }
    if (!result_.profile.ops.empty()) result_.other.push_back(-1);
    result_.values.assign(local_.size(), -1);
  }

  int Number(int v, int op) {
    const int number = static_cast<int>(result_.profile.values.size());
    local_[v] = number;
    Value value;
    value.op = value.released = op;
    result_.profile.values.push_back(value);
    result_.own.push_back(0);
    return number;
  }

  void AddOp(int i) {
    Profile& profile = result_.profile;
    const int number = static_cast<int>(profile.ops.size());
    Op op;
    op.time = graph_.time[i];
    op.scratch = Bytes{graph_.scratch[i]};
    op.replayable = graph_.replayable[i];
    for (int v : graph_.inputs[i]) op.inputs.push_back(local_.at(v));
    for (int v : graph_.outputs[i]) {
      const int n = Number(v, number);
      op.outputs.push_back(n);
      result_.values.push_back(v);
      Value& value = profile.values[n];
      value.bytes = Bytes{graph_.bytes[v]};
      if (!Own(i)) continue;
      result_.own[n] = 1;
      value.saved = graph_.saved[v];
      value.retainable = graph_.keepable[v];
    }
    profile.ops.push_back(std::move(op));
    result_.other.push_back(Own(i) ? graph_.other[i] : -1);
  }

  void AddStages() {
    int64_t base = std::numeric_limits<int64_t>::max();
    const std::vector<Stage>& stages = graph_.profile->stages;
    for (int t = part_.first_stage; t < part_.end_stage; ++t) {
      base = std::min(base, Count(stages[t].before));
    }
    if (part_.first_stage == part_.end_stage) base = 0;
    result_.base_before = base;
    Stage all_else;
    for (size_t n = 0; n < result_.values.size(); ++n) {
      const int v = result_.values[n];
      if (!result_.own[n] || !uses_.kept[v]) continue;
      if (uses_.Outside(v, part_)) all_else.needs.push_back(n);
    }
    result_.profile.stages.push_back(std::move(all_else));
    for (int t = part_.first_stage; t < part_.end_stage; ++t) {
      Stage stage;
      stage.before = stages[t].before - Bytes{base};
      stage.during = stages[t].during - Bytes{base};
      for (int v : graph_.needs[t]) stage.needs.push_back(local_.at(v));
      std::sort(stage.needs.begin(), stage.needs.end());
      result_.profile.stages.push_back(std::move(stage));
    }
  }

  void Release() {
    Profile& profile = result_.profile;
    const int ops = static_cast<int>(profile.ops.size());
    const int stages = static_cast<int>(profile.stages.size());
    for (int i = 0; i < ops; ++i) {
      for (int n : profile.ops[i].inputs) {
        int& released = profile.values[n].released;
        released = std::max(released, i);
      }
    }
    for (size_t n = 0; n < profile.values.size(); ++n) {
      int& released = profile.values[n].released;
      if (result_.own[n] != 0) {
        const int held = graph_.held[result_.values[n]];
        if (held >= part_.first_stage) {
          released = ops + 1 + held - part_.first_stage;
        }
      }
      released = std::min(released, ops + stages);
    }
  }

  void SetBaseOther() {
    if (part_.begin == part_.end) return;
    int64_t base = std::numeric_limits<int64_t>::max();
    for (int i = part_.begin; i < part_.end; ++i) {
      base = std::min(base, graph_.other[i]);
    }
    result_.base_other = base;
    // Below 0: not run in this part's forward.
    for (int64_t& other : result_.other) {
      other = std::max<int64_t>(0, other - base);
    }
  }

  const Graph& graph_;
  const Uses& uses_;
  const Part& part_;
  PartProfile result_;
  std::vector<int> ops_;
  absl::flat_hash_set<int> made_;
  absl::flat_hash_map<int, int> local_;  // number of each value
};

class Text {
 public:
  template <class Number>
  void Add(Number number) {
    char bytes[sizeof(Number)];
    std::memcpy(bytes, &number, sizeof(Number));
    text_.append(bytes, sizeof(Number));
  }
  void AddList(const std::vector<int>& list) {
    Add(list.size());
    for (int number : list) Add(number);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

PartProfile MakePartProfile(const Graph& graph, const Uses& uses,
                            const Part& part) {
  return Builder(graph, uses, part).Build();
}

std::string Signature(const PartProfile& part) {
  Text text;
  const Profile& profile = part.profile;
  text.Add(profile.values.size());
  for (size_t n = 0; n < profile.values.size(); ++n) {
    const Value& value = profile.values[n];
    text.Add(Count(value.bytes));
    text.Add(value.op);
    text.Add(value.released);
    text.Add(static_cast<char>(value.saved | value.retainable << 1 |
                               part.own[n] << 2));
  }
  text.Add(profile.ops.size());
  for (size_t i = 0; i < profile.ops.size(); ++i) {
    const Op& op = profile.ops[i];
    text.AddList(op.inputs);
    text.AddList(op.outputs);
    text.Add(op.time);
    text.Add(Count(op.scratch));
    text.Add(static_cast<char>(op.replayable));
    text.Add(part.other[i]);
  }
  text.Add(profile.stages.size());
  for (const Stage& stage : profile.stages) {
    text.AddList(stage.needs);
    text.Add(Count(stage.before));
    text.Add(Count(stage.during));
  }
  return text.Take();
}

std::vector<PartProfile> DistinctProfiles(const Graph& graph, const Uses& uses,
                                          const std::vector<Part>& parts,
                                          std::vector<PartFacts>* facts) {
  absl::flat_hash_map<std::string, int> known;
  std::vector<PartProfile> distinct;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (!parts[p].children.empty()) continue;
    PartProfile profile = MakePartProfile(graph, uses, parts[p]);
    const auto [it, fresh] =
        known.try_emplace(Signature(profile), distinct.size());
    (*facts)[p] = {.menu = it->second,
                   .base_other = profile.base_other,
                   .base_before = profile.base_before,
                   .values = profile.values,
                   .own = profile.own};
    if (fresh) distinct.push_back(std::move(profile));
  }
  return distinct;
}

void WriteStages(const Graph& graph, const Part& part, const PartFacts& facts,
                 const Retention& own, Draft* draft) {
  if (part.first_stage == part.end_stage) return;
  for (size_t n = 0; n < facts.values.size(); ++n) {
    const int v = facts.values[n];
    if (v < 0 || graph.pinned[v]) continue;
    // Copies of ops for what comes in leave with the part.
    const int end = facts.own[n] ? part.end_stage : part.end_stage - 1;
    for (int t = part.first_stage; t < end; ++t) {
      draft->bits.Set(v, t, own.Get(n, t - part.first_stage + 1));
    }
    if (end < part.end_stage) draft->bits.Set(v, end, 0);
  }
}

}  // namespace ebbtide
