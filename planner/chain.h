// A chain of stages, the input of the chain solvers: Rotor's model (Beaumont,
// Herrmann, Pallez, Shilova: "Optimal memory-aware backpropagation of deep join
// networks" and arXiv 1911.13214, section 3) in any one unit of time and of
// size.
#ifndef EBBTIDE_PLANNER_CHAIN_H_
#define EBBTIDE_PLANNER_CHAIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/units.h"

namespace ebbtide {

// Another way to run a stage's forward with its saved set kept.
struct ChainOption {
  int stage = 0;
  Time fw = 0;
  Time bw = 0;
  Bytes xb{};
  Bytes ft{};
  Bytes bt{};
};

// Parameters that `stages` share. The last backward of them updates it.
struct ChainWeight {
  std::vector<int> stages;  // at least one
  Bytes bytes{};
  Bytes grad{};           // from the first backward on to the update
  Bytes state{};          // the optimizer's
  Time update = 0;        // on the device, beside bw
  Time host_update = -1;  // on the host; negative: it cannot
};

// Stage i reads x[i] and makes x[i+1]; the loss is stage L.
struct Chain {
  std::vector<Time> fw;   // L: forward times
  std::vector<Time> bw;   // L + 1: backward times; bw[L] is the loss
  std::vector<Bytes> x;   // L + 1: inputs; x[0] stays alive throughout, and
                          // the gradient y[i] of x[i] is as large as x[i]
  std::vector<Bytes> xb;  // L + 1: xb[i+1] is what stage i saves, with its
                          // output x[i+1] in it; xb[0] = x[0]
  std::vector<Bytes> ft;  // L: forward workspace
  std::vector<Bytes> bt;  // L + 1: backward workspace; bt[L] is the loss's
  double d2h = 0;         // bytes per unit of time; 0: no such lane
  double h2d = 0;
  Bytes host{-1};  // room of the host tier; negative: no limit
  std::vector<ChainOption> options;
  std::vector<ChainWeight> weights;
};

inline int Stages(const Chain& chain) {
  return static_cast<int>(chain.fw.size());
}

inline bool HasLanes(const Chain& chain) {
  return chain.d2h > 0 && chain.h2d > 0;
}

// The ways to run stage i with its saved set kept: the chain's own first, then
// its options in their order. Way k is `save` = k + 1 of a forward action.
std::vector<ChainOption> SavingWays(const Chain& chain, int i);

// Ok if there is a stage, lengths agree, sizes and times are finite and not
// negative, xb[0] = x[0], xb[i] >= x[i]. The message names the place.
absl::Status CheckChain(const Chain& chain);

// Text form: {"kind":"chain","fw":[..],...} (see `ebbtide plan --help`).
std::string ChainToJson(const Chain& chain);
absl::StatusOr<Chain> ChainFromJson(absl::string_view text,
                                    absl::string_view origin);

// Sum of all times: the step with nothing run twice.
Time BaseTime(const Chain& chain);

// Each stage once, in the fastest of its ways: no plan does less.
Time LeastTime(const Chain& chain);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_H_
