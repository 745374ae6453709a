#include "planner/ilp/schedule.h"

#include <algorithm>

#include "planner/ilp/copies.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr int kNotMoved = -1;
constexpr int kUnread = -1;
constexpr int kByStage = 1 << 30;  // read by the stage itself, after all ops

class Emitter {
 public:
  Emitter(const Graph& graph, int64_t budget, const Schedule& schedule)
      : graph_(graph),
        budget_(budget),
        schedule_(schedule),
        order_(OrderCopies(graph, schedule)),
        back_(graph.values, kNotMoved),
        counted_(graph.values, 0),
        last_read_(graph.values, kUnread) {
    for (const Move& move : schedule.moves) back_[move.value] = move.back;
  }

  std::vector<Action> Run() {
    Forward();
    for (int g = 0; g < static_cast<int>(schedule_.run.size()); ++g) {
      Segment(g);
    }
    return std::move(actions_);
  }

 private:
  void Forward() {
    for (int i = 0; i < graph_.ops; ++i) {
      actions_.push_back({Do::kForward, i});
      for (int v : graph_.outputs[i]) {
        if (graph_.saved[v]) Count(v);
      }
      for (int v : order_.out[i]) {
        actions_.push_back({Do::kOffload, v});
        Uncount(v);
      }
      for (int v : graph_.released_forward[i]) {
        const bool kept = !schedule_.stay.empty() && schedule_.stay[0][v];
        if (!kept && back_[v] == kNotMoved) Drop(v);
      }
    }
  }

  void Segment(int g) {
    const int t = g / schedule_.passes;
    const bool last = (g + 1) % schedule_.passes == 0;
    NoteReads(g, last);
    const size_t begin = actions_.size();
    need_.clear();
    before_ = ebbtide::Count(graph_.profile->stages[t].before);
    for (int v : order_.back[g]) Count(v);
    for (int v = 0; v < graph_.values; ++v) Settle(v, g, kUnread);
    const std::vector<int>& run = schedule_.run[g];
    for (int k = 0; k < static_cast<int>(run.size()); ++k) {
      actions_.push_back({Do::kRecompute, run[k]});
      for (int v : graph_.outputs[run[k]]) {
        if (graph_.held[v] < t) Count(v);
      }
      need_.push_back(before_ + live_ + graph_.scratch[run[k]]);
      for (int v : graph_.inputs[run[k]]) Settle(v, g, k);
      for (int v : graph_.outputs[run[k]]) Settle(v, g, k);
    }
    Restore(g, begin);
    if (!last) return;
    actions_.push_back({Do::kBackward, t});
    for (int v = 0; v < graph_.values; ++v) {
      if (graph_.held[v] <= t && !Stays(v, g)) Drop(v);
    }
  }

  void NoteReads(int g, bool last) {
    last_read_.assign(graph_.values, kUnread);
    const std::vector<int>& run = schedule_.run[g];
    for (int k = 0; k < static_cast<int>(run.size()); ++k) {
      for (int v : graph_.inputs[run[k]]) last_read_[v] = k;
    }
    if (!last) return;
    for (int v : graph_.needs[g / schedule_.passes]) last_read_[v] = kByStage;
  }

  // Lets v go if nothing in segment g reads it after its k-th op.
  void Settle(int v, int g, int k) {
    if (graph_.held[v] >= g / schedule_.passes) return;
    if (last_read_[v] > k || Stays(v, g)) return;
    Drop(v);
  }

  // Also on its way back.
  bool Stays(int v, int g) const {
    return schedule_.stay[g + 1][v] || back_[v] > g;
  }

  void Drop(int v) {
    if (!counted_[v]) return;
    need_.push_back(before_ + live_);
    Uncount(v);
    actions_.push_back({Do::kFree, v});
  }

  // Puts what comes back in segment g among its actions, from `begin` on, whose
  // needs are those beside all of it: in order, each as early as it fits.
  void Restore(int g, size_t begin) {
    const std::vector<Action> part(actions_.begin() + begin, actions_.end());
    const std::vector<int>& values = order_.back[g];
    std::vector<size_t> position(values.size(), 0);
    for (size_t r = values.size(); r-- > 0;) {
      size_t& p = position[r];
      for (size_t k = 0; k < part.size() && !Reads(part[k], values[r]); ++k) {
        if (need_[k] > budget_) p = k + 1;
      }
      for (size_t k = 0; k < p; ++k) need_[k] -= graph_.bytes[values[r]];
    }
    actions_.resize(begin);
    size_t r = 0;
    for (size_t k = 0; k <= part.size(); ++k) {
      for (; r < values.size() && position[r] <= k; ++r) {
        actions_.push_back({Do::kRestore, values[r]});
      }
      if (k < part.size()) actions_.push_back(part[k]);
    }
  }

  bool Reads(const Action& action, int v) const {
    if (action.what == Do::kFree) return action.index == v;
    const absl::Span<const int> inputs = graph_.inputs[action.index];
    return std::find(inputs.begin(), inputs.end(), v) != inputs.end();
  }

  void Count(int v) {
    if (!counted_[v]) live_ += graph_.bytes[v];
    counted_[v] = 1;
  }

  void Uncount(int v) {
    counted_[v] = 0;
    live_ -= graph_.bytes[v];
  }

  const Graph& graph_;
  const int64_t budget_;
  const Schedule& schedule_;
  const CopyOrder order_;
  std::vector<int> back_;      // by value: segment before which it is absent
  std::vector<char> counted_;  // on the device, by the planner's count
  std::vector<int> last_read_;
  int64_t live_ = 0;           // bytes of the counted ones
  int64_t before_ = 0;         // other bytes, before the stage to come
  std::vector<int64_t> need_;  // needs of the segment's actions
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> ActionsOf(const Graph& graph, int64_t budget,
                              const Schedule& schedule) {
  return Emitter(graph, budget, schedule).Run();
}

}  // namespace ebbtide
