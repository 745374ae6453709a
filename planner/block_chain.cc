#include "planner/block_chain.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/chain_table.h"
#include "planner/separators.h"

namespace ebbtide {
namespace {

// Sums of a table of few slots: about a second.
constexpr double kMostTerms = 2e9;
// Ways to save a block: as many of these as the table allows.
constexpr size_t kWays[] = {12, 8, 6, 4, 3, 2, 1};

// Saving all is the one option of a menu that took no effort.
constexpr MenuEffort kSaveAll = {
    .drops = 0, .saves = 0, .peaks = 0, .evaluations = 0, .changes = 0};

std::vector<Part> MakeBlocks(const Graph& graph,
                             const std::vector<Border>& borders) {
  std::vector<Part> parts(borders.size() - 1);
  std::vector<Part*> row;
  for (size_t k = 0; k < parts.size(); ++k) {
    parts[k].begin = borders[k].op;
    parts[k].end = borders[k + 1].op;
    row.push_back(&parts[k]);
  }
  AssignStages(HomesOf(graph), 0, graph.stages, row);
  return parts;
}

Bytes AtLeastNone(int64_t bytes) { return Bytes{std::max<int64_t>(0, bytes)}; }

// The fastest first, of equally fast ones the one that saves least.
bool ComesFirst(const PartOption& a, const PartOption& b) {
  return a.time != b.time ? a.time < b.time : a.save < b.save;
}

}  // namespace

BlockChain::BlockChain(const Graph& graph, ChainSolver solver,
                       bool with_options, const GraphPlanOptions& options)
    : graph_(graph),
      uses_(graph, /*little=*/0),
      borders_(Separators(graph, uses_)),
      parts_(MakeBlocks(graph, borders_)),
      facts_(parts_.size()) {
  std::vector<PartProfile> profiles =
      DistinctProfiles(graph, uses_, parts_, &facts_);
  if (with_options) {
    menus_ = SolveParts(&profiles, options.seed, options.evaluations,
                        options.deadline);
  } else {
    for (PartProfile& profile : profiles) {
      menus_.push_back(SolvePart(&profile, kSaveAll, options.seed));
    }
  }
  base_ = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < parts_.size(); ++i) {
    base_ = std::min(base_, facts_[i].base_other);
    if (HasStages(i)) base_ = std::min(base_, facts_[i].base_before);
  }
  for (size_t most : kWays) {
    MakeChain(most);
    if (WorkOf(chain_, solver).terms * kFewestSlots <= kMostTerms) break;
  }
}

// With at most that many ways to save each block.
void BlockChain::MakeChain(size_t most) {
  chain_ = {.x = {CrossingBytes(0)}, .xb = {CrossingBytes(0)}};
  drafts_.assign(parts_.size(), {});
  for (size_t i = 0; i < parts_.size(); ++i) {
    AddBlock(static_cast<int>(i), most);
  }
  chain_.bw.push_back(0);
  chain_.bt.push_back(Bytes{});
}

void BlockChain::AddBlock(int block, size_t most) {
  const Part& part = parts_[block];
  Time forward = 0;
  Time backward = 0;
  for (int i = part.begin; i < part.end; ++i) forward += graph_.time[i];
  for (int t = part.first_stage; t < part.end_stage; ++t) {
    backward += graph_.profile->stages[t].time;
  }
  const PartMenu& menu = menus_[facts_[block].menu];
  std::vector<PartOption> options = menu.options;
  Thin(most, &options);
  std::sort(options.begin(), options.end(), ComesFirst);
  for (const PartOption& option : options) {
    const ChainOption way = WayOf(block, option);
    const bool first = drafts_[block].empty();
    drafts_[block].push_back(option.draft);
    if (first) {
      chain_.fw.push_back(forward);
      chain_.bw.push_back(backward + way.bw);
      chain_.xb.push_back(way.xb);
      chain_.bt.push_back(way.bt);
    } else {
      chain_.options.push_back(way);
      chain_.options.back().fw = forward;
      chain_.options.back().bw += backward;
    }
  }
  chain_.x.push_back(CrossingBytes(block + 1));
  chain_.ft.push_back(Workspace(block, options));
}

// Costs of the option, beyond the times that all options take.
ChainOption BlockChain::WayOf(int block, const PartOption& option) const {
  const PartFacts& facts = facts_[block];
  const int64_t in = Count(CrossingBytes(block));
  const int64_t out = Count(CrossingBytes(block + 1));
  const int64_t other = facts.base_other - base_;
  const int64_t before = Before(block);
  return {.stage = block,
          .bw = option.time,
          .xb = Bytes{std::max(out, option.save + PassingBytes(block))},
          .ft = AtLeastNone(option.forward + other - option.save),
          // The gradients at both borders are among what is there before.
          .bt = AtLeastNone(option.backward + before - option.save - out - in)};
}

// Beside what comes in and goes out, saving nothing else: in the first forward
// pass, and again in backward.
Bytes BlockChain::Workspace(int block,
                            const std::vector<PartOption>& options) const {
  const PartFacts& facts = facts_[block];
  const int64_t out = Count(CrossingBytes(block + 1));
  const auto least = std::min_element(
      options.begin(), options.end(),
      [](const PartOption& a, const PartOption& b) { return a.save < b.save; });
  const int64_t first = least->forward + facts.base_other - base_;
  const int64_t again =
      menus_[facts.menu].rerun_peak + std::max<int64_t>(0, Before(block) - out);
  return AtLeastNone(std::max(first, again) - out);
}

bool BlockChain::HasStages(int block) const {
  return parts_[block].first_stage < parts_[block].end_stage;
}

// Bytes alive during all of its stages, above the base.
int64_t BlockChain::Before(int block) const {
  return HasStages(block) ? facts_[block].base_before - base_ : 0;
}

Bytes BlockChain::CrossingBytes(int border) const {
  Bytes bytes{};
  for (int v : borders_[border].values) bytes += Bytes{graph_.bytes[v]};
  return bytes;
}

// Bytes of the values that cross both borders of the block.
int64_t BlockChain::PassingBytes(int block) const {
  int64_t bytes = 0;
  for (int v : borders_[block + 1].values) {
    if (graph_.op[v] < parts_[block].begin) bytes += graph_.bytes[v];
  }
  return bytes;
}

const Retention& BlockChain::BitsOf(int block, int way) const {
  return menus_[facts_[block].menu].drafts[drafts_[block][way]].bits;
}

}  // namespace ebbtide
