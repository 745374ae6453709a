#include "planner/chain_simulate.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

enum class Where : uint8_t { kAbsent, kDevice, kHost };

struct State {
  Where where = Where::kAbsent;
  Time here = 0;   // when what is on the device may be read
  Time ready = 0;  // end of its last copy
  int way = 0;     // way in which its stage was run, for a saved set
};

struct Copy {
  Time end;
  Bytes bytes;
  int reader = -1;  // last action that reads what is copied out; -1: none
};

// By action: of an offload, the last one that reads the value before it is
// brought back; -1: none.
std::vector<int> LastReaders(int stages,
                             absl::Span<const ChainAction> actions) {
  std::vector<int> readers(actions.size(), -1);
  std::vector<int> offload(2 * stages + 2, -1);  // by item, x[i] and xb[i]
  const auto read = [&](int item, int k) {
    if (offload[item] >= 0) readers[offload[item]] = k;
  };
  for (int k = 0; k < static_cast<int>(actions.size()); ++k) {
    const ChainAction& a = actions[k];
    const int input = a.what == Do::kLoss ? stages : a.stage;
    if (input < 0 || input > stages) continue;
    const int item = 2 * input + (a.item == Item::kXb ? 1 : 0);
    if (a.what == Do::kOffload) offload[item] = k;
    if (a.what == Do::kRestore) offload[item] = -1;
    if (a.what == Do::kForward || a.what == Do::kLoss ||
        a.what == Do::kBackward) {
      read(2 * input, k);
      read(2 * input + 1, k);
    }
    if (a.what == Do::kBackward && input < stages) read(2 * input + 3, k);
  }
  return readers;
}

class Simulator {
 public:
  Simulator(const Chain& chain, absl::Span<const ChainAction> actions,
            Bytes budget)
      : chain_(chain),
        budget_(budget),
        stages_(Stages(chain)),
        readers_(LastReaders(stages_, actions)),
        x_(stages_ + 1),
        xb_(stages_ + 1),
        resident_(chain.x[0]) {
    x_[0].where = Where::kDevice;
    for (int i = 0; i < stages_; ++i) ways_.push_back(SavingWays(chain, i));
  }

  absl::Status Run(const ChainAction& action) {
    ++position_;
    const int most = action.what == Do::kForward || action.what == Do::kBackward
                         ? stages_ - 1
                         : stages_;
    if (action.what == Do::kUpdate || action.item > Item::kXb) {
      return Bad("weights move in the plans of cycles only");
    }
    if (action.stage < 0 || action.stage > most) {
      return Bad("expected a stage from 0 to ", most, ", got ", action.stage);
    }
    switch (action.what) {
      case Do::kForward:
        return Forward(action.stage, action.save);
      case Do::kLoss:
        return Loss();
      case Do::kBackward:
        return Backward(action.stage);
      case Do::kFree:
        return Free(action);
      case Do::kOffload:
        return Offload(action);
      case Do::kRestore:
        return Restore(action);
      case Do::kUpdate:
        break;
    }
    return Bad("unknown action");
  }

  absl::StatusOr<ChainSimulation> Finish() {
    if (gradient_ != 0) return Bad("the plan ends before backward of stage 0");
    result_.time = clock_;
    return result_;
  }

 private:
  template <class... Args>
  static absl::Status Bad(const Args&... args) {
    return absl::InvalidArgumentError(absl::StrCat(args...));
  }

  void WaitUntil(Time time) {
    if (time <= clock_) return;
    result_.stall += time - clock_;
    clock_ = time;
  }

  // Waits for x[i], alone or in its saved set. A value on the host that was not
  // restored has stayed on the device for this reader, too.
  absl::Status AwaitInput(int i) {
    for (const State* state : {&x_[i], &xb_[i]}) {
      if (state->where == Where::kAbsent) continue;
      WaitUntil(state->here);
      return absl::OkStatus();
    }
    return Bad("x[", i, "] is not on the device");
  }

  // The running or ended copy out whose bytes are the next to leave; null where
  // the others all have readers to come.
  Copy* NextToLeave() {
    for (Copy& copy : leaving_) {
      if (copy.reader < position_) return &copy;
    }
    return nullptr;
  }

  void Drain() {
    std::erase_if(leaving_, [this](const Copy& copy) {
      if (copy.reader >= position_ || copy.end > clock_) return false;
      resident_ -= copy.bytes;
      return true;
    });
  }

  absl::Status Occupy(Bytes extra) {
    Drain();
    while (resident_ + extra > budget_) {
      const Copy* const next = NextToLeave();
      if (next == nullptr) break;
      WaitUntil(next->end);
      Drain();
    }
    const Bytes live = resident_ + extra;
    result_.peak = std::max(result_.peak, live);
    if (live <= budget_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "needs ", Count(live), ", the budget is ", Count(budget_)));
  }

  absl::Status Forward(int i, int save) {
    if (auto s = AwaitInput(i); !s.ok()) return s;
    if (save < 0 || save > static_cast<int>(ways_[i].size())) {
      return Bad("stage ", i, " can be saved in ", ways_[i].size(),
                 " ways, got save ", save);
    }
    if (x_[i + 1].where != Where::kAbsent ||
        xb_[i + 1].where != Where::kAbsent) {
      return Bad("x[", i + 1, "] is there already");
    }
    const int way = std::max(0, save - 1);
    const ChainOption& run = ways_[i][way];
    const Bytes made = save == 0 ? chain_.x[i + 1] : run.xb;
    if (auto s = Occupy(made + run.ft); !s.ok()) return s;
    (save == 0 ? x_ : xb_)[i + 1] = {Where::kDevice, clock_, clock_, way};
    resident_ += made;
    clock_ += run.fw;
    return absl::OkStatus();
  }

  absl::Status Loss() {
    if (gradient_ >= 0) return Bad("the loss was run before");
    if (auto s = AwaitInput(stages_); !s.ok()) return s;
    if (auto s = Occupy(chain_.x[stages_] + chain_.bt[stages_]); !s.ok()) {
      return s;
    }
    resident_ += chain_.x[stages_];
    clock_ += chain_.bw[stages_];
    gradient_ = stages_;
    return absl::OkStatus();
  }

  absl::Status Backward(int i) {
    if (gradient_ != i + 1) return Bad("y[", i + 1, "] is not there");
    const State& saved = xb_[i + 1];
    if (saved.where == Where::kAbsent) {
      return Bad("xb[", i + 1, "] is not on the device");
    }
    WaitUntil(saved.here);
    if (auto s = AwaitInput(i); !s.ok()) return s;
    const ChainOption& run = ways_[i][saved.way];
    if (auto s = Occupy(chain_.x[i] + run.bt); !s.ok()) return s;
    resident_ += chain_.x[i] - chain_.x[i + 1];
    clock_ += run.bw;
    gradient_ = i;
    return absl::OkStatus();
  }

  // x[i] or xb[i]; x[0] belongs to the caller, and may move but not go.
  absl::StatusOr<State*> Movable(const ChainAction& action, Where where) {
    State* state = &(action.item == Item::kX ? x_ : xb_)[action.stage];
    const char* name = action.item == Item::kX ? "x[" : "xb[";
    const bool goes = action.what == Do::kFree || action.item == Item::kXb;
    if (action.stage == 0 && goes) return Bad(name, "0] is not freed");
    if (state->where == where) return state;
    return Bad(name, action.stage, "] is not on the ",
               where == Where::kHost ? "host" : "device");
  }

  Bytes Size(const ChainAction& action, const State& state) const {
    return action.item == Item::kX ? chain_.x[action.stage]
                                   : ways_[action.stage - 1][state.way].xb;
  }

  absl::Status Free(const ChainAction& action) {
    absl::StatusOr<State*> state = Movable(action, Where::kDevice);
    if (!state.ok()) return state.status();
    if ((*state)->ready > clock_) return Bad("it is still being restored");
    resident_ -= Size(action, **state);
    (*state)->where = Where::kAbsent;
    return absl::OkStatus();
  }

  absl::Status Offload(const ChainAction& action) {
    absl::StatusOr<State*> state = Movable(action, Where::kDevice);
    if (!state.ok()) return state.status();
    if (chain_.d2h <= 0) return Bad("the chain has no D2H lane");
    const Bytes bytes = Size(action, **state);
    if (auto s = TakeHostRoom(bytes); !s.ok()) return s;
    const Time start = std::max(std::max(clock_, d2h_), (*state)->ready);
    d2h_ = start + static_cast<double>(Count(bytes)) / chain_.d2h;
    leaving_.push_back({d2h_, bytes, readers_[position_]});
    (*state)->where = Where::kHost;
    (*state)->ready = d2h_;
    return absl::OkStatus();
  }

  absl::Status Restore(const ChainAction& action) {
    absl::StatusOr<State*> state = Movable(action, Where::kHost);
    if (!state.ok()) return state.status();
    if (chain_.h2d <= 0) return Bad("the chain has no H2D lane");
    const Bytes bytes = Size(action, **state);
    if (auto s = Occupy(bytes); !s.ok()) return s;
    resident_ += bytes;
    const Time start = std::max(std::max(clock_, h2d_), (*state)->ready);
    h2d_ = start + static_cast<double>(Count(bytes)) / chain_.h2d;
    returning_.push_back({h2d_, bytes});
    (*state)->where = Where::kDevice;
    (*state)->ready = h2d_;
    (*state)->here = h2d_;
    return absl::OkStatus();
  }

  absl::Status TakeHostRoom(Bytes bytes) {
    while (!returning_.empty() && returning_.front().end <= clock_) {
      host_ -= returning_.front().bytes;
      returning_.pop_front();
    }
    host_ += bytes;
    if (chain_.host < Bytes{} || host_ <= chain_.host) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the host would hold ", Count(host_), ", its room is ",
                     Count(chain_.host)));
  }

  const Chain& chain_;
  const Bytes budget_;
  const int stages_;
  const std::vector<int> readers_;
  int position_ = -1;  // position of the running action
  std::vector<std::vector<ChainOption>> ways_;
  std::vector<State> x_;
  std::vector<State> xb_;
  int gradient_ = -1;  // i where y[i] is there; -1 before the loss
  Time clock_ = 0;
  Time d2h_ = 0;
  Time h2d_ = 0;
  Bytes resident_;
  std::vector<Copy> leaving_;
  Bytes host_{};
  std::deque<Copy> returning_;
  ChainSimulation result_;
};

}  // namespace

absl::StatusOr<ChainSimulation> SimulateChain(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget) {
  Simulator simulator(chain, actions, budget);
  for (size_t k = 0; k < actions.size(); ++k) {
    absl::Status status = simulator.Run(actions[k]);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("actions[", k, "]: ", status.message()));
    }
  }
  return simulator.Finish();
}

}  // namespace ebbtide
