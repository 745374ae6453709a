#include "planner/random_plan.h"

#include <algorithm>
#include <random>

#include "absl/types/span.h"
#include "planner/reruns.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

enum class Where : uint8_t { kAway, kScript, kDevice, kHost };

// Probabilities of a random plan's actions.
struct Temper {
  double free = 0;     // for a value on the device, at each instant
  double offload = 0;  // likewise
  double restore = 0;  // for a value on the host, before a stage that can wait
  double rebuild = 0;  // for an absent value, likewise
};

class Writer {
 public:
  Writer(const Graph& graph, uint64_t seed, bool offload)
      : graph_(graph),
        rng_(seed),
        offload_(offload && graph.profile->d2h > 0 && graph.profile->h2d > 0),
        reruns_left_(4 * graph.ops + 16),
        where_(graph.values, Where::kAway),
        unread_(graph.values, 0),
        locks_(graph.values, 0),
        needed_(LastNeeds(graph)),
        wanted_(LastUses(graph)) {
    if (graph.profile->host >= Bytes{}) room_ = Count(graph.profile->host);
    const double often[] = {0, 0.02, 0.3};
    temper_ = {.free = std::max(0.01, often[rng_() % 3]),
               .offload = often[rng_() % 3],
               .restore = often[rng_() % 3],
               .rebuild = often[rng_() % 3] / 4};
  }

  std::vector<Action> Write() {
    for (int i = 0; i < graph_.ops; ++i) Forward(i);
    for (int t = 0; t < graph_.stages; ++t) Backward(t);
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kDevice && IsReleased(v)) Free(v);
    }
    return std::move(actions_);
  }

 private:
  bool Toss(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(rng_) < probability;
  }

  void Act(Do what, int index) { actions_.push_back({what, index}); }

  // At whose end the value is the plan's own.
  bool IsReleased(int v) const {
    return graph_.profile->values[v].released < next_;
  }

  bool MayFree(int v) const {
    if (where_[v] != Where::kDevice || locks_[v] > 0 || unread_[v] ||
        !IsReleased(v)) {
      return false;
    }
    if (wanted_[v] < Stage()) return true;
    // When too much has been recomputed, values that may be needed stay.
    return graph_.replayable[graph_.op[v]] && reruns_left_ > 0;
  }

  // An offloaded value has to be restored, and to be read before it may be
  // offloaded again: only values that a stage asks for are.
  bool MayOffload(int v) const {
    const Value& value = graph_.profile->values[v];
    return offload_ && value.movable && graph_.keepable[v] &&
           where_[v] == Where::kDevice && locks_[v] == 0 && !unread_[v] &&
           IsReleased(v) && needed_[v] >= Stage() && graph_.bytes[v] <= room_;
  }

  // The first stage to come.
  int Stage() const { return std::max(0, next_ - graph_.ops); }

  void Free(int v) {
    where_[v] = Where::kAway;
    Act(Do::kFree, v);
  }

  void Offload(int v) {
    where_[v] = Where::kHost;
    room_ -= graph_.bytes[v];
    Act(Do::kOffload, v);
  }

  void Restore(int v) {
    where_[v] = Where::kDevice;
    unread_[v] = 1;
    Act(Do::kRestore, v);
  }

  // Whoever reads a value waits for its copy.
  void Read(int v) {
    if (!unread_[v]) return;
    unread_[v] = 0;
    room_ += graph_.bytes[v];
  }

  void ThinOut() {
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] != Where::kDevice) continue;
      if (Toss(temper_.free) && MayFree(v)) {
        Free(v);
      } else if (Toss(temper_.offload) && MayOffload(v)) {
        Offload(v);
      }
    }
  }

  // The instant that has just run ends.
  void EndInstant(absl::Span<const int> released) {
    ++next_;
    for (int v : released) {
      if (where_[v] == Where::kScript) where_[v] = Where::kAway;
    }
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kDevice && MustGo(graph_, v, next_ - 1)) {
        Free(v);
      }
    }
    ThinOut();
  }

  void Forward(int i) {
    Act(Do::kForward, i);
    for (int v : graph_.outputs[i]) {
      where_[v] = graph_.saved[v] ? Where::kDevice : Where::kScript;
    }
    EndInstant(graph_.released_forward[i]);
  }

  void Backward(int t) {
    for (int v = 0; v < graph_.values; ++v) {
      if (where_[v] == Where::kHost && Toss(temper_.restore)) Restore(v);
      if (where_[v] == Where::kAway && wanted_[v] >= t && reruns_left_ > 0 &&
          graph_.replayable[graph_.op[v]] && Toss(temper_.rebuild)) {
        Obtain(v);
      }
    }
    std::vector<int> needs(graph_.needs[t].begin(), graph_.needs[t].end());
    std::shuffle(needs.begin(), needs.end(), rng_);
    for (int v : needs) {
      Obtain(v);
      ++locks_[v];
      ThinOut();
    }
    Act(Do::kBackward, t);
    for (int v : needs) {
      --locks_[v];
      Read(v);
    }
    EndInstant(graph_.released_stage[t]);
  }

  // Puts v on the device, by the ops that are missing in their order.
  void Obtain(int v) {
    if (where_[v] == Where::kHost) Restore(v);
    if (where_[v] != Where::kAway) return;
    const std::vector<int> ops = MissingOps(
        graph_, v, [this](int u) { return where_[u] == Where::kAway; });
    for (int i : ops) {
      for (int input : graph_.inputs[i]) ++locks_[input];
    }
    ++locks_[v];
    for (int i : ops) RunAgain(i);
    --locks_[v];
  }

  // Locks its inputs no more.
  void RunAgain(int i) {
    for (int v : graph_.inputs[i]) {
      if (where_[v] == Where::kHost) Restore(v);
    }
    for (int v : graph_.outputs[i]) {
      if (where_[v] == Where::kHost) Restore(v);
    }
    Act(Do::kRecompute, i);
    --reruns_left_;
    for (int v : graph_.inputs[i]) {
      --locks_[v];
      Read(v);
    }
    for (int v : graph_.outputs[i]) {
      if (where_[v] == Where::kAway) where_[v] = Where::kDevice;
    }
    ThinOut();
  }

  const Graph& graph_;
  std::mt19937_64 rng_;
  const bool offload_;
  Temper temper_;
  int64_t reruns_left_;
  int64_t room_ = int64_t{1} << 60;  // room on the host, restores unread
                                     // included
  int next_ = 0;                     // instant to come
  std::vector<Where> where_;
  std::vector<char> unread_;  // restored, and not read since
  std::vector<int> locks_;
  const std::vector<int> needed_;
  std::vector<int> wanted_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> RandomActions(const Graph& graph, uint64_t seed,
                                  bool offload) {
  return Writer(graph, seed, offload).Write();
}

}  // namespace ebbtide
