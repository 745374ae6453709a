// The end of a search: windows of the best plan, each made anew exactly.
#include <algorithm>
#include <cmath>

#include "planner/search.h"
#include "planner/window.h"

namespace ebbtide {
namespace {

// Sixteen find less in the same time.
constexpr int kDecisions = 10;
// Looked at for one window, so that large graphs have windows too.
constexpr size_t kCandidates = 256;

}  // namespace

// Values that may stay through stage t or leave it, and those that stage t may
// leave behind.
std::vector<Decision> Search::Around(int t) {
  std::vector<Decision> decisions;
  const int size = static_cast<int>(movers_.size());
  const int first = Below(size);
  for (int k = 0; k < size && decisions.size() < kCandidates; ++k) {
    const int v = movers_[(first + k) % size];
    const Events& events = state_.events(v);
    const auto at = EventFrom(events, t);
    if (graph_.bytes[v] == 0 || at == events.end()) continue;
    if (at != events.begin()) {
      decisions.push_back({v, (at - 1)->stage, at->stage});
    }
    if (at->stage == t && at + 1 != events.end()) {
      decisions.push_back({v, t, (at + 1)->stage});
    }
  }
  return decisions;
}

// Those that are most in doubt: held for little time per byte, or dropped for
// much, chance mixed in.
std::vector<Decision> Search::MostDoubtful(
    const std::vector<Decision>& decisions) {
  std::vector<std::pair<double, Decision>> held;
  std::vector<std::pair<double, Decision>> dropped;
  for (const Decision& d : decisions) {
    const char bit = draft().bits.Get(d.value, d.begin);
    state_.SetBits(d.value, d.begin, d.end, !bit);
    state_.UpdateTime();
    ++evaluations_;
    const Time more = state_.rebuild_time() - now_.overhead;
    state_.Revert();
    // From a half to two.
    const double luck =
        std::exp2(2 * static_cast<double>(rng_() >> 11) * 0x1p-53 - 1);
    const double worth = std::abs(more) / graph_.bytes[d.value] * luck;
    if (bit && more > 0) held.push_back({worth, d});
    if (!bit && more < 0) dropped.push_back({-worth, d});
  }
  std::vector<Decision> doubtful;
  for (auto* list : {&held, &dropped}) {
    const size_t most = std::min<size_t>(kDecisions / 2, list->size());
    std::partial_sort(
        list->begin(), list->begin() + most, list->end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t k = 0; k < most; ++k) doubtful.push_back((*list)[k].second);
  }
  return doubtful;
}

void Search::Reoptimise(const Progress& progress) {
  constexpr int kMostIdle = 1000;
  if (!has_best_ || !rebuild_ || movers_.empty()) return;
  Load(best());
  const std::vector<char>& offloaded = draft().offloaded;
  if (std::count(offloaded.begin(), offloaded.end(), 1) > 0) return;
  Window window(graph_, budget_);
  int idle = 0;
  const auto stop = [&] { return progress() >= 1; };
  while (!stop() && idle < kMostIdle) {
    int t = Below(graph_.stages);
    if (Below(2) == 0 && state_.rebuilt() > 0) {
      t = state_.FindRebuilt(Below(state_.rebuilt())).first;
    }
    const std::vector<Decision> decisions = MostDoubtful(Around(t));
    ++idle;
    if (decisions.size() < 2) continue;
    const int64_t nodes = window.nodes();
    if (window.Solve(decisions, stop, &state_)) {
      now_ = Present();
      NoteBest();
      idle = 0;
    }
    evaluations_ += window.nodes() - nodes;
  }
}

}  // namespace ebbtide
