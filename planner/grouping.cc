#include "planner/grouping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/partition.h"

namespace ebbtide {
namespace {

constexpr int kNone = -1;

int Weight(const OpGroup& node) { return node.inside.empty() ? 1 : 2; }

// A run [begin, end) of nodes.
struct Candidate {
  double score;
  int begin;
  int end;
};

class Grouping {
 public:
  Grouping(const Graph& graph, const Uses& uses)
      : graph_(graph),
        uses_(uses),
        node_of_(graph.ops),
        stamp_(std::max(graph.values, graph.ops), kNone) {
    for (int i = 0; i < graph.ops; ++i) {
      nodes_.push_back({i, i + 1, {}});
      kept_inputs_.Add(KeptInputs(i));
    }
  }

  std::vector<OpGroup> Run() {
    while (static_cast<int>(nodes_.size()) > kMostOnTop) {
      const size_t before = nodes_.size();
      Link();
      Contract(Best(Candidates()));
      // Too slow, as where there are hardly any candidates.
      if (nodes_.size() > before - before / 20) {
        Link();
        Contract(Cuts());
      }
    }
    return std::move(nodes_);
  }

 private:
  int size() const { return static_cast<int>(nodes_.size()); }

  // Inputs of an op, values that cannot be kept replaced by the inputs of their
  // ops: they must be kept if the op and its inputs are in different groups.
  std::vector<int> KeptInputs(int op) const {
    constexpr size_t kMost = 64;
    std::vector<int> kept;
    std::vector<int> seen(graph_.inputs[op].begin(), graph_.inputs[op].end());
    for (size_t k = 0; k < seen.size() && seen.size() < kMost; ++k) {
      if (uses_.kept[seen[k]]) {
        kept.push_back(seen[k]);
        continue;
      }
      for (int v : graph_.inputs[graph_.op[seen[k]]]) seen.push_back(v);
    }
    return kept;
  }

  // Finds the reads between nodes.
  void Link() {
    enters_ = leaves_ = makers_ = IntLists();
    std::vector<std::vector<int>> users(nodes_.size());
    for (int n = 0; n < size(); ++n) {
      for (int i = nodes_[n].begin; i < nodes_[n].end; ++i) node_of_[i] = n;
    }
    std::fill(stamp_.begin(), stamp_.end(), kNone);
    for (int n = 0; n < size(); ++n) {
      std::vector<int> enters;
      std::vector<int> leaves;
      std::vector<int> makers;
      for (int i = nodes_[n].begin; i < nodes_[n].end; ++i) {
        for (int v : kept_inputs_[i]) {
          if (node_of_[graph_.op[v]] == n) continue;
          if (std::exchange(stamp_[v], n) != n) enters.push_back(v);
        }
        for (int v : graph_.inputs[i]) {
          const int maker = node_of_[graph_.op[v]];
          if (maker == n) continue;
          makers.push_back(maker);
          if (users[maker].empty() || users[maker].back() != n) {
            users[maker].push_back(n);
          }
        }
        for (int v : graph_.outputs[i]) {
          if (!uses_.kept[v]) continue;
          if (uses_.last_reader[v] >= nodes_[n].end) leaves.push_back(v);
        }
      }
      std::sort(makers.begin(), makers.end());
      makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
      enters_.Add(enters);
      leaves_.Add(leaves);
      makers_.Add(makers);
    }
    users_ = IntLists();
    for (const std::vector<int>& list : users) users_.Add(list);
  }

  std::vector<Candidate> Candidates() {
    std::vector<Candidate> candidates;
    AddSequences(&candidates);
    AddFlows(&candidates);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) {
                if (a.score != b.score) return a.score > b.score;
                return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
              });
    return candidates;
  }

  // Where it is within the caps.
  void Add(int begin, int end, std::vector<Candidate>* candidates) {
    if (end - begin < kLeastGroup || end - begin > kMostInGroup) return;
    int weight = 0;
    for (int n = begin; n < end; ++n) weight += Weight(nodes_[n]);
    if (weight > kMostInGroup) return;
    candidates->push_back({Score(begin, end), begin, end});
  }

  double Score(int begin, int end) {
    double bytes = 0;
    const int first = nodes_[begin].begin;
    const int behind = nodes_[end - 1].end;
    std::vector<int> seen;
    for (int n = begin; n < end; ++n) {
      for (int v : enters_[n]) {
        if (graph_.op[v] < first) seen.push_back(v);
      }
      for (int v : leaves_[n]) {
        if (uses_.last_reader[v] >= behind) bytes += graph_.bytes[v];
      }
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (int v : seen) bytes += graph_.bytes[v];
    return -bytes * std::sqrt(static_cast<double>(behind - first));
  }

  // Long ones in equal pieces.
  void AddSequences(std::vector<Candidate>* candidates) {
    const auto linked = [&](int n) {
      return users_[n].size() == 1 && users_[n][0] == n + 1 &&
             makers_[n + 1].size() == 1;
    };
    for (int begin = 0; begin < size();) {
      int end = begin + 1;
      int weight = Weight(nodes_[begin]);
      while (end < size() && linked(end - 1)) weight += Weight(nodes_[end++]);
      const int pieces = (weight + kMostInGroup - 1) / kMostInGroup;
      const int length = (end - begin + pieces - 1) / pieces;
      for (int at = begin; at < end; at += length) {
        Add(at, std::min(end, at + length), candidates);
      }
      begin = end;
    }
  }

  void AddFlows(std::vector<Candidate>* candidates) {
    // Where the paths from each node meet; kNone: too far on to matter.
    std::vector<int> meet(nodes_.size(), kNone);
    for (int n = size() - 1; n >= 0; --n) {
      meet[n] = MeetingOf(n, meet);
      if (meet[n] == kNone) continue;
      for (int source : {n, n + 1}) {
        for (int sink : {meet[n], meet[n] + 1}) Add(source, sink, candidates);
      }
    }
  }

  int MeetingOf(int n, const std::vector<int>& meet) const {
    int at = kNone;
    for (int user : users_[n]) {
      if (at == kNone) at = user;
      while (at != user) {
        int& behind = at < user ? at : user;
        behind = meet[behind];
        if (behind == kNone || behind > n + kMostInGroup) return kNone;
      }
    }
    return at;
  }

  // The best candidates that do not overlap, in order.
  std::vector<Candidate> Best(const std::vector<Candidate>& candidates) const {
    std::vector<char> taken(nodes_.size(), 0);
    std::vector<Candidate> best;
    for (const Candidate& c : candidates) {
      if (std::find(taken.begin() + c.begin, taken.begin() + c.end, 1) !=
          taken.begin() + c.end) {
        continue;
      }
      std::fill(taken.begin() + c.begin, taken.begin() + c.end, 1);
      best.push_back(c);
    }
    std::sort(best.begin(), best.end(),
              [](const Candidate& a, const Candidate& b) {
                return a.begin < b.begin;
              });
    return best;
  }

  // Bytes that cross the order before each node.
  std::vector<double> Crossing() const {
    std::vector<double> crossing(nodes_.size() + 1, 0);
    for (int n = 0; n < size(); ++n) {
      for (int v : leaves_[n]) {
        crossing[n + 1] += graph_.bytes[v];
        crossing[node_of_[uses_.last_reader[v]] + 1] -= graph_.bytes[v];
      }
    }
    for (int n = 0; n < size(); ++n) crossing[n + 1] += crossing[n];
    return crossing;
  }

  // Groups of half the cap and more whose borders are crossed by fewest bytes;
  // only the last may be smaller.
  std::vector<Candidate> Cuts() const {
    const std::vector<double> crossing = Crossing();
    std::vector<double> least(nodes_.size() + 1,
                              std::numeric_limits<double>::infinity());
    std::vector<int> from(nodes_.size() + 1, kNone);
    least[0] = 0;
    for (int end = 1; end <= size(); ++end) {
      int weight = 0;
      for (int begin = end - 1; begin >= 0; --begin) {
        weight += Weight(nodes_[begin]);
        if (weight > kMostInGroup) break;
        if (2 * weight < kMostInGroup && end < size()) continue;
        const double bytes = least[begin] + crossing[end];
        if (bytes >= least[end]) continue;
        least[end] = bytes;
        from[end] = begin;
      }
    }
    std::vector<Candidate> groups;
    for (int end = size(); end > 0; end = from[end]) {
      groups.push_back({0, from[end], end});
    }
    std::reverse(groups.begin(), groups.end());
    return groups;
  }

  void Contract(const std::vector<Candidate>& groups) {
    std::vector<OpGroup> next;
    int n = 0;
    for (const Candidate& group : groups) {
      while (n < group.begin) next.push_back(std::move(nodes_[n++]));
      if (group.end - group.begin < 2) continue;
      OpGroup node{nodes_[group.begin].begin, nodes_[group.end - 1].end, {}};
      while (n < group.end) node.inside.push_back(std::move(nodes_[n++]));
      next.push_back(std::move(node));
    }
    while (n < size()) next.push_back(std::move(nodes_[n++]));
    nodes_ = std::move(next);
  }

  const Graph& graph_;
  const Uses& uses_;
  IntLists kept_inputs_;  // by op
  std::vector<OpGroup> nodes_;
  std::vector<int> node_of_;  // by op
  std::vector<int> stamp_;
  IntLists enters_;  // by node: values kept outside for them
  IntLists leaves_;  // by node: values kept in them for others
  IntLists makers_;  // by node: nodes that they read from
  IntLists users_;   // by node: nodes that read from them
};

}  // namespace

std::vector<OpGroup> GroupOps(const Graph& graph, const Uses& uses) {
  return Grouping(graph, uses).Run();
}

}  // namespace ebbtide
