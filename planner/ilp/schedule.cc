#include "planner/ilp/schedule.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr int kUnread = -1;
constexpr int kByStage = 1 << 30;  // read by the stage itself, after all ops

class Emitter {
 public:
  Emitter(const Graph& graph, const Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        counted_(graph.values, 0),
        last_read_(graph.values, kUnread) {}

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
      for (int v : graph_.outputs[i]) counted_[v] = graph_.saved[v];
      for (int v : graph_.released_forward[i]) {
        if (schedule_.stay.empty() || !schedule_.stay[0][v]) Drop(v);
      }
    }
  }

  void Segment(int g) {
    const int t = g / schedule_.passes;
    const bool last = (g + 1) % schedule_.passes == 0;
    NoteReads(g, last);
    for (int v = 0; v < graph_.values; ++v) Settle(v, g, kUnread);
    const std::vector<int>& run = schedule_.run[g];
    for (int k = 0; k < static_cast<int>(run.size()); ++k) {
      actions_.push_back({Do::kRecompute, run[k]});
      for (int v : graph_.outputs[run[k]]) {
        if (graph_.held[v] < t) counted_[v] = 1;
      }
      for (int v : graph_.inputs[run[k]]) Settle(v, g, k);
      for (int v : graph_.outputs[run[k]]) Settle(v, g, k);
    }
    if (!last) return;
    actions_.push_back({Do::kBackward, t});
    for (int v = 0; v < graph_.values; ++v) {
      if (graph_.held[v] <= t && !schedule_.stay[g + 1][v]) Drop(v);
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
    if (last_read_[v] > k || schedule_.stay[g + 1][v]) return;
    Drop(v);
  }

  void Drop(int v) {
    if (!counted_[v]) return;
    counted_[v] = 0;
    actions_.push_back({Do::kFree, v});
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::vector<char> counted_;  // on the device, by the planner's count
  std::vector<int> last_read_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> ActionsOf(const Graph& graph, const Schedule& schedule) {
  return Emitter(graph, schedule).Run();
}

}  // namespace ebbtide
