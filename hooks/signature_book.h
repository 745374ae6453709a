// The history of the pairs of one signature. The table of histories is bounded;
// a discarded one is collected anew.
#ifndef EBBTIDE_HOOKS_SIGNATURE_BOOK_H_
#define EBBTIDE_HOOKS_SIGNATURE_BOOK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/tape.h"
#include "planner/contest.h"
#include "planner/time_spread.h"

namespace ebbtide {

struct SteadyPlan;
struct TapePlan;

// A plan, and what came of following it.
struct Candidate {
  std::shared_ptr<const TapePlan> plan;
  bool moves = false;  // bytes to the host and back
  // Its layout takes more than was left for it: pages move in its steps.
  bool is_too_high = false;
  bool unsteady = false;  // did not hold the budget without the recorder
  StepTimes times;        // seconds, of complete pairs
  int reported = -1;      // index in the report's plans
};

struct SignatureBook {
  enum class Plans {
    kNone,     // not asked for yet
    kAsked,    // in the making
    kReady,    // there is one, and may yet be another
    kRefused,  // there is none, because of `failure`
  };

  int pairs = 0;    // that were complete
  int repeats = 0;  // recorded pairs that followed one of the same signature
  int profile_due = 1;      // without a budget: when a profile is written
  uint64_t successor = 0;   // signature of what came next the last time
  int64_t last_pair = 0;    // number of the last pair in the run
  int64_t longest_gap = 0;  // pairs from one to the next; 0: it came once
  bool was_short = false;   // memory was short the last time
  size_t stages = 0;        // backward ops of the longest backward
  // Times of each op and backward op, and of steps, recorded or not, from such
  // a pair to the next without ebbtide's own work; nanoseconds.
  std::vector<TimeSamples> op_times;
  std::vector<TimeSamples> stage_times;
  int marked = 0;           // pairs in which the times were measured
  bool is_settled = false;  // times are those of steps that followed a plan
  // Without a budget, for pairs that are not recorded.
  std::shared_ptr<const SteadyPlan> keeping;
  int windows = 0;  // pairs whose times are those of the device's work; then
                    // no others count
  StepTimes step_times;
  int priced_at = 0;     // step times seen when the candidates were last priced
  StepTimes tail_times;  // where the device is asked: what follows backward
  StepTimes demand;      // seconds, without a plan

  Plans plans = Plans::kNone;
  int request = 0;  // to the planning; what others gave is out of date
  std::vector<Candidate> candidates;
  std::string failure;
  Bytes margin{};           // that the last request left free of the budget
  bool is_due = false;      // for plans that are made with more time
  bool is_refined = false;  // those were asked for
  // Bytes that the last layout that served such pairs took beyond the live
  // ones.
  std::optional<Bytes> layout_waste;
  // Steps as planned in which memory was short all the same, since it was last
  // planned for less, and how often that was.
  int short_steps = 0;
  int tightened = 0;
  Bytes tightened_from{};  // peak of the plan that was given up for that
  // Pairs in a row before it is tried without the recorder: one that then turns
  // out to be another cannot be kept within the budget by recomputing.
  int steady_after = 8;

  bool floor_told = false;
  bool failure_told = false;

  // True if, at that pair of the run, it has been absent no longer than four
  // times its longest gap, or than 64 pairs if it occurred once.
  bool MayComeAgain(int64_t pair) const {
    return pair - last_pair < (longest_gap > 0 ? 4 * longest_gap : 64);
  }

  // Gives `time`, of the op with that index, the least that the op has taken
  // before, where it is not measured.
  void EstimateTime(int index, TapeTime* time) const {
    if (time->is_measured || index >= static_cast<int>(op_times.size())) return;
    const TimeSamples& times = op_times[index];
    if (!times.IsEmpty()) time->nanoseconds = times.Least();
  }

  void ForgetTimes() {
    op_times.clear();
    stage_times.clear();
    windows = 0;
    marked = 0;
  }
  // Drops the candidates that are too high. The plan takes the place of the
  // candidate of its kind (one that moves bytes, or one that moves none). False
  // where that one is as good, and stays.
  bool Take(std::shared_ptr<const TapePlan> plan);
  // By others that are made with more time. These are followed until then: a
  // step without a plan takes more memory.
  void ReplacePlans() {
    for (Candidate& candidate : candidates) candidate.is_too_high = true;
    is_due = true;
    is_refined = true;
  }
  void DiscardPlans() {
    plans = Plans::kNone;
    request = 0;
    is_due = false;
    is_refined = false;
    candidates.clear();
    failure.clear();
  }
  void RefusePlans(std::string why) {
    DiscardPlans();
    plans = Plans::kRefused;
    failure = std::move(why);
  }
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_SIGNATURE_BOOK_H_
