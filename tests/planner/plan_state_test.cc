#include "planner/plan_state.h"

#include <gtest/gtest.h>

#include "planner/evaluator.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

constexpr int64_t kBudget = 40;

class Pair {
 public:
  Pair(const Graph& graph, const Draft& draft)
      : graph_(graph), evaluator_(graph), state_(graph, kBudget) {
    state_.Load(draft);
  }

  PlanState& state() { return state_; }

  // The state says what an evaluation from nothing says.
  void Compare() {
    evaluator_.Evaluate(state_.draft(), &whole_);
    EXPECT_EQ(state_.broken(), whole_.broken);
    if (whole_.broken) return;
    for (int t = 0; t < graph_.stages; ++t) {
      EXPECT_EQ(state_.stage_peak(t), whole_.stage_peak[t]) << t;
    }
    const auto& peaks = whole_.stage_peak;
    EXPECT_EQ(state_.HighestStage(),
              std::max_element(peaks.begin(), peaks.end()) - peaks.begin());
    EXPECT_EQ(state_.peak(), whole_.peak);
    EXPECT_EQ(state_.rebuild_time(), whole_.overhead);
    EXPECT_EQ(state_.host_excess(), HostExcess(graph_, whole_));
    EXPECT_EQ(state_.rebuilt(), static_cast<int>(whole_.rebuilt.size()));
    EXPECT_EQ(state_.over(), Over());
    for (int t = 0; t < graph_.stages; ++t) {
      const auto begin = whole_.rebuilt.begin();
      EXPECT_EQ(state_.work(t).rebuilt,
                std::vector<int>(begin + whole_.rebuilt_begin[t],
                                 begin + whole_.rebuilt_begin[t + 1]));
    }
    Lanes lanes(graph_, kBudget);
    EXPECT_EQ(state_.Stall(), lanes.Stall(TrafficOf(whole_)));
  }

 private:
  static double Above(int64_t peak) {
    return static_cast<double>(std::max<int64_t>(0, peak - kBudget));
  }

  double Over() const {
    const auto& forward = whole_.forward_peak;
    double over = 3 * Above(*std::max_element(forward.begin(), forward.end()));
    over += 3.0 * HostExcess(graph_, whole_);
    int64_t tail = Count(graph_.profile->tail);
    for (int v = 0; v < graph_.values; ++v) {
      if (graph_.saved[v] && graph_.held[v] == graph_.stages) {
        tail += graph_.bytes[v];
      }
    }
    over += 3 * Above(tail);
    for (int64_t peak : whole_.stage_peak) over += Above(peak);
    return over;
  }

  const Graph& graph_;
  Evaluator evaluator_;
  Evaluation whole_;
  PlanState state_;
};

// One to three changes of any kind.
void Change(const Graph& graph, std::mt19937* rng, PlanState* state) {
  const auto below = [&](int n) { return static_cast<int>((*rng)() % n); };
  for (int k = below(3); k >= 0; --k) {
    const int v = below(graph.values);
    const int t = below(graph.stages + 1) - 1;
    const char bit = static_cast<char>(below(2));
    switch (below(5)) {
      case 0:
        state->SetBit(v, t, bit);
        break;
      case 1:
        state->SetBits(v, t, t + 1 + below(graph.stages), bit);
        break;
      case 2: {
        Row row;
        row.Fill(bit);
        state->SetRow(v, row);
        break;
      }
      case 3:
        if (!graph.movable[v]) break;
        if (!state->draft().offloaded.empty()) state->SetOffloaded(v, bit);
        break;
      default:
        if (t < 0 || !graph.replayable[graph.op[v]]) break;
        if (bit) state->AddEarly(v, t);
        if (!bit) state->RemoveEarly(v, t);
    }
  }
}

TEST(PlanStateTest, SaysWhatAnEvaluationFromNothingSays) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Profile p = RandomProfile(
        seed, 2 + seed % 24 + (seed % 50 == 0) * 150, seed % 2 == 0);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    std::mt19937 rng(seed);
    Pair pair(*graph, KeepAll(*graph, p.d2h > 0));
    pair.Compare();
    for (int k = 0; k < 60; ++k) {
      Change(*graph, &rng, &pair.state());
      pair.state().Update();
      pair.Compare();
      if (k % 3 == 0) {
        pair.state().Revert();
        pair.Compare();
      } else {
        pair.state().Commit();
      }
      if (HasFailure()) FAIL() << "seed " << seed << ", change " << k;
    }
  }
}

// Reverted between any two steps of an update, and what the first steps say of
// the last.
TEST(PlanStateTest, UpdatesInStepsThatCanBeReverted) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 40, seed % 2 == 0);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    std::mt19937 rng(seed);
    Pair pair(*graph, KeepAll(*graph, p.d2h > 0));
    PlanState& state = pair.state();
    for (int k = 0; k < 80; ++k) {
      Change(*graph, &rng, &state);
      const int steps = 1 + k % 4;
      state.UpdateTime();
      const Time time = state.rebuild_time();
      if (steps > 1) state.UpdateHeld();
      const double least = state.least_over();
      if (steps > 2) {
        state.UpdatePeaks();
        EXPECT_EQ(state.rebuild_time(), time);
        EXPECT_LE(least, state.over());
        pair.Compare();
      }
      if (steps == 4) {
        state.Commit();
      } else {
        state.Revert();
      }
      pair.Compare();
      if (HasFailure()) FAIL() << "seed " << seed << ", change " << k;
    }
  }
}

}  // namespace
}  // namespace ebbtide
