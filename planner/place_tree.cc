#include "planner/place_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace ebbtide {
namespace {

// So many instants of buffers that are looked at count as one node more.
constexpr int64_t kInstantsPerNode = 2048;
constexpr int64_t kPut = -1;  // on the trail: it was placed
// States without an answer that are kept, of some 30 bytes.
constexpr size_t kMostKnown = size_t{1} << 20;
constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

// Spreads the bits (the finalizer of SplitMix64).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

PlaceTree::PlaceTree(const PlaceProblem& problem, Bytes unit)
    : offset_(problem.buffers.size()) {
  const auto& buffers = problem.buffers;
  const int n = static_cast<int>(buffers.size());
  std::vector<std::vector<Lifetime>> pieces;
  for (const Buffer& b : buffers) {
    pieces.push_back(Pieces(b));
    Block block;
    block.size = Count(b.size) / Count(unit);
    // An alignment below the unit asks for nothing.
    block.alignment = std::max<int64_t>(1, Count(b.alignment) / Count(unit));
    if (b.offset) block.fixed = Count(*b.offset) / Count(unit);
    blocks_.push_back(std::move(block));
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (i != j && Meet(pieces[i], pieces[j])) blocks_[i].meets.push_back(j);
    }
  }
  const int streams =
      n == 0 ? 0 : static_cast<int>(buffers[0].live.begin.size());
  for (int stream = 0; stream < streams; ++stream) {
    MakeSections(problem, stream);
  }
  sum_.resize(sections_.size());
  looked_.resize(sections_.size());
  by_begin_.resize(n);
  std::iota(by_begin_.begin(), by_begin_.end(), 0);
  // With several streams one clock does not show which blocks are disjoint.
  for (Block& block : blocks_) {
    if (streams > 1) block.hull = {0, 1};
  }
  std::stable_sort(by_begin_.begin(), by_begin_.end(), [this](int a, int b) {
    return blocks_[a].hull < blocks_[b].hull;
  });
}

// An instant is a section of its own if a buffer leaves before the next one:
// the buffers at any other instant are all there at a section, too.
void PlaceTree::MakeSections(const PlaceProblem& problem, int stream) {
  std::vector<std::pair<int64_t, bool>> changes;  // instant, begins
  for (const Buffer& b : problem.buffers) {
    for (const Lifetime& live : Pieces(b)) {
      if (live.begin[stream] == live.end[stream]) continue;
      changes.push_back({live.begin[stream], true});
      changes.push_back({live.end[stream], false});
    }
  }
  std::sort(changes.begin(), changes.end());
  std::vector<int64_t> instants;
  for (size_t k = 0; k + 1 < changes.size(); ++k) {
    if (changes[k].second && !changes[k + 1].second) {
      instants.push_back(changes[k].first);
    }
  }
  const auto rank = [&instants](int64_t at) {
    return static_cast<int>(
        std::lower_bound(instants.begin(), instants.end(), at) -
        instants.begin());
  };
  const int before = static_cast<int>(sections_.size());
  sections_.resize(before + instants.size());
  for (size_t id = 0; id < blocks_.size(); ++id) {
    const std::vector<Lifetime> pieces = Pieces(problem.buffers[id]);
    Block& block = blocks_[id];
    for (const Lifetime& live : pieces) {
      const int end = rank(live.end[stream]);
      for (int s = rank(live.begin[stream]); s < end; ++s) {
        block.sections.push_back(before + s);
        sections_[before + s].push_back(static_cast<int>(id));
      }
    }
    for (const Lifetime& live : pieces) {
      block.width += static_cast<double>(live.end[stream] - live.begin[stream]);
    }
    block.hull = {rank(pieces.front().begin[stream]),
                  rank(pieces.back().end[stream])};
  }
}

PlaceTree::Answer PlaceTree::Search(int64_t capacity, TreeOrder order,
                                    int64_t nodes) {
  capacity_ = capacity;
  order_ = order;
  rank_.assign(blocks_.size(), 0);
  limit_ = nodes;
  nodes_ = 0;
  least_.assign(blocks_.size(), 0);
  placed_.assign(blocks_.size(), 0);
  from_.assign(blocks_.size(), 0);
  in_group_.assign(blocks_.size(), 0);
  trail_.clear();
  if (blocks_.empty()) return Answer::kFound;
  Rank(by_begin_);
  return Solve(by_begin_, {}, std::nullopt);
}

void PlaceTree::Rank(absl::Span<const int> group) {
  for (int id : group) {
    for (int s : blocks_[id].sections) sum_[s] += blocks_[id].size;
  }
  using Key = std::tuple<double, double, double, int>;
  std::vector<Key> keys;  // ascend
  keys.reserve(group.size());
  for (int id : group) {
    const Block& block = blocks_[id];
    int64_t most = 0;
    for (int s : block.sections) most = std::max(most, sum_[s]);
    const double w = -block.width;
    const double a = w * static_cast<double>(block.size);
    const auto t = -static_cast<double>(most);
    keys.push_back(order_ == TreeOrder::kWidthAreaCrowd   ? Key(w, a, t, id)
                   : order_ == TreeOrder::kCrowdAreaWidth ? Key(t, a, w, id)
                                                          : Key(t, w, a, id));
  }
  std::sort(keys.begin(), keys.end());
  for (size_t k = 0; k < keys.size(); ++k) {
    rank_[std::get<3>(keys[k])] = static_cast<int>(k);
  }
  for (int id : group) {
    for (int s : blocks_[id].sections) sum_[s] = 0;
  }
}

int64_t PlaceTree::Height() const {
  int64_t height = 0;
  for (size_t id = 0; id < blocks_.size(); ++id) {
    height = std::max(height, offset_[id] + blocks_[id].size);
  }
  return height;
}

int64_t PlaceTree::OffsetOf(int id) const {
  return blocks_[id].fixed >= 0 ? blocks_[id].fixed : least_[id];
}

bool PlaceTree::IsBehind(int id, Last last) const {
  return std::tuple(OffsetOf(id), rank_[id]) <
         std::tuple(last.offset, last.rank);
}

int64_t PlaceTree::PushedTo(int id) const {
  int64_t lowest = kFar;
  for (int other : blocks_[id].meets) {
    if (placed_[other]) continue;
    lowest = std::min(lowest, from_[other] + blocks_[other].size);
  }
  if (lowest > capacity_) return capacity_;  // as good as too far
  return AlignUp(lowest, blocks_[id].alignment);
}

int64_t PlaceTree::LowestEnd(absl::Span<const int> group, Last last) {
  int64_t lowest = kFar;
  behind_.clear();
  ++group_;
  for (int id : group) {
    const Block& block = blocks_[id];
    const int64_t offset = OffsetOf(id);
    if (offset < least_[id]) return -1;  // a fixed one is covered
    const bool behind = IsBehind(id, last);
    if (behind && block.fixed >= 0) return -1;
    if (behind) behind_.push_back(id);
    in_group_[id] = group_;
    from_[id] = std::max(offset, last.offset);
    if (from_[id] + block.size > capacity_) return -1;
    lowest = std::min(lowest, offset + block.size);
  }
  for (int id : behind_) {
    from_[id] = PushedTo(id);
    if (from_[id] + blocks_[id].size > capacity_) return -1;
  }
  // Whoever fits below what was placed last has its place in another branch.
  return lowest <= last.offset ? -1 : lowest;
}

bool PlaceTree::SectionFits(int section) {
  int64_t low = kFar;
  int64_t sum = 0;
  for (int id : sections_[section]) {
    if (placed_[id] || in_group_[id] != group_) continue;
    low = std::min(low, from_[id]);
    sum += blocks_[id].size;
  }
  instants_ += static_cast<int64_t>(sections_[section].size());
  return sum == 0 || low + sum <= capacity_;
}

bool PlaceTree::SectionsFit(absl::Span<const int> group,
                            std::optional<size_t> mark) {
  const auto fit = [this](int id) {
    for (int s : blocks_[id].sections) {
      if (looked_[s] == group_) continue;
      looked_[s] = group_;
      if (!SectionFits(s)) return false;
    }
    return true;
  };
  bool all = true;
  if (!mark) {
    for (int id : group) all = all && fit(id);
  } else {
    for (size_t k = *mark; k < trail_.size(); ++k) {
      const auto& [id, least] = trail_[k];
      if (least == kPut || in_group_[id] == group_) all = all && fit(id);
    }
    for (int id : behind_) all = all && fit(id);
  }
  nodes_ = std::min(nodes_ + instants_ / kInstantsPerNode, limit_);
  instants_ %= kInstantsPerNode;
  return all;
}

std::pair<uint64_t, uint64_t> PlaceTree::StateOf(absl::Span<const int> group,
                                                 Last last) const {
  std::pair<uint64_t, uint64_t> state(capacity_, capacity_);
  for (int id : group) {
    const auto offset = static_cast<uint64_t>(OffsetOf(id));
    const uint64_t one = Mix(2 * offset + (IsBehind(id, last) ? 1 : 0) +
                             Mix(static_cast<uint64_t>(id) + 1));
    state.first += one;
    state.second += Mix(one + 1);
  }
  return state;
}

int PlaceTree::Splits(absl::Span<const int> group) const {
  int splits = 0;
  int end = blocks_[group[0]].hull.second;
  for (int id : group.subspan(1)) {
    if (blocks_[id].hull.first >= end) ++splits;
    end = std::max(end, blocks_[id].hull.second);
  }
  return splits;
}

PlaceTree::Answer PlaceTree::SolveAlone(int id) {
  const int64_t offset = OffsetOf(id);
  if (offset < least_[id] || offset + blocks_[id].size > capacity_) {
    return Answer::kNone;
  }
  offset_[id] = offset;
  return Answer::kFound;
}

// Groups that do not meet, the smallest first: one without an answer is enough.
PlaceTree::Answer PlaceTree::SolveApart(absl::Span<const int> group, Last last,
                                        std::optional<size_t> mark,
                                        int splits) {
  std::vector<absl::Span<const int>> parts;
  parts.reserve(splits + 1);
  size_t first = 0;
  int end = blocks_[group[0]].hull.second;
  for (size_t k = 1; k < group.size(); ++k) {
    if (blocks_[group[k]].hull.first >= end) {
      parts.push_back(group.subspan(first, k - first));
      first = k;
    }
    end = std::max(end, blocks_[group[k]].hull.second);
  }
  parts.push_back(group.subspan(first));
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<int> ranks;
  ranks.reserve(group.size());
  for (int id : group) ranks.push_back(rank_[id]);
  // Among those at the last offset any may come next in the new order.
  last.rank = -1;
  Answer answer = Answer::kFound;
  for (const absl::Span<const int>& part : parts) {
    if (part.size() > 1) Rank(part);
    answer = Solve(part, last, mark);
    if (answer != Answer::kFound) break;
  }
  for (size_t k = 0; k < group.size(); ++k) rank_[group[k]] = ranks[k];
  return answer;
}

PlaceTree::Answer PlaceTree::Solve(absl::Span<const int> group, Last last,
                                   std::optional<size_t> mark) {
  if (group.size() == 1) return SolveAlone(group[0]);
  const int splits = Splits(group);
  if (splits > 0) return SolveApart(group, last, mark, splits);
  if (nodes_ == limit_) return Answer::kUnknown;
  ++nodes_;
  const int64_t lowest = LowestEnd(group, last);
  if (lowest < 0) return Answer::kNone;
  const auto state = StateOf(group, last);
  if (known_.contains(state) || !SectionsFit(group, mark)) {
    return Answer::kNone;
  }
  const Answer answer = Branch(group, last, lowest);
  if (answer == Answer::kNone && known_.size() < kMostKnown) {
    known_.insert(state);
  }
  return answer;
}

PlaceTree::Answer PlaceTree::Branch(absl::Span<const int> group, Last last,
                                    int64_t lowest) {
  std::vector<std::tuple<int64_t, int, int>> next;  // offset, rank, buffer
  for (int id : group) {
    const int64_t offset = OffsetOf(id);
    if (offset < lowest && !IsBehind(id, last)) {
      next.push_back({offset, rank_[id], id});
    }
  }
  std::sort(next.begin(), next.end());
  std::vector<int> rest;
  for (const auto& [offset, rank, id] : next) {
    rest.clear();
    for (int other : group) {
      if (other != id) rest.push_back(other);
    }
    const size_t mark = trail_.size();
    Put(id, offset);
    const Answer answer = Solve(rest, {offset, rank}, mark);
    if (answer != Answer::kNone) return answer;
    TakeBack(mark);
  }
  return Answer::kNone;
}

void PlaceTree::Put(int id, int64_t offset) {
  offset_[id] = offset;
  placed_[id] = 1;
  trail_.push_back({id, kPut});
  const int64_t end = offset + blocks_[id].size;
  for (int other : blocks_[id].meets) {
    if (placed_[other]) continue;
    const int64_t least = AlignUp(end, blocks_[other].alignment);
    if (least <= least_[other]) continue;
    trail_.push_back({other, least_[other]});
    least_[other] = least;
  }
}

void PlaceTree::TakeBack(size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const auto& [id, least] = trail_.back();
    if (least == kPut) {
      placed_[id] = 0;
    } else {
      least_[id] = least;
    }
  }
}

}  // namespace ebbtide
