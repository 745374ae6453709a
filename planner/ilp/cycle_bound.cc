#include "planner/ilp/cycle_bound.h"

#include <algorithm>
#include <vector>

#include "planner/ilp/mip.h"

namespace ebbtide {
namespace {

// Bytes copied by the end of each period from `begin` on; nothing before.
struct Sum {
  int begin = 0;
  std::vector<int> column;

  int At(int period) const {
    if (period < begin || column.empty()) return kNoColumn;
    return column[std::min<size_t>(period - begin, column.size() - 1)];
  }
};

// Op k is preceded by wait k. The lane out has op k and the wait behind it as
// its period k, the lane in wait k and op k: what leaves is gone for the next
// op, and what comes back takes its place before an op begins. Bytes are
// counted in what everything takes, and times in those of all ops.
class Program {
 public:
  Program(const Cycle& cycle, Bytes budget)
      : c_(cycle),
        bytes_(Most(cycle)),
        room_(cycle.ops.size(),
              std::min(2.0, static_cast<double>(Count(budget)) / bytes_)),
        memory_(cycle.ops.size()),
        device_(cycle.ops.size()),
        share_of_(cycle.items.size(), kNoColumn),
        out_{cycle.d2h, Terms(cycle.ops.size()), Terms(cycle.ops.size())},
        in_{cycle.h2d, Terms(cycle.ops.size()), Terms(cycle.ops.size())} {
    for (const CycleOp& op : c_.ops) whole_ += op.time;
    if (whole_ > 0) unit_ = whole_;
    for (const CycleUpdate& update : c_.updates) AddShare(update);
    for (int k = 0; k < c_.Ops(); ++k) AddTimes(k);
    for (const CycleItem& item : c_.items) AddItem(item);
    for (const CycleCopy& copy : c_.copies) AddCopy(copy);
    for (const CycleGap& gap : c_.gaps) AddGap(gap);
    for (size_t u = 0; u < c_.updates.size(); ++u) {
      if (shares_[u] != kNoColumn) AddHostUpdate(c_.updates[u], shares_[u]);
    }
    for (int k = 0; k < c_.Ops(); ++k) AddLimits(k);
    AddHostTime();
  }

  absl::StatusOr<CycleBound> Solve(absl::Duration limit) const {
    const auto result = SolveMip(mip_, {.time_limit = limit, .interior = true});
    if (!result.ok()) return result.status();
    CycleBound bound;
    bound.feasible = result->status != MipResult::Status::kNone;
    bound.time = whole_;
    if (result->status != MipResult::Status::kOptimal) return bound;
    double cost = 0;
    for (int n = 0; n < mip_.columns(); ++n) {
      cost += mip_.cost[n] * result->values[n];
    }
    bound.time = cost * unit_;
    return bound;
  }

 private:
  using Terms = std::vector<std::vector<Term>>;

  static double Most(const Cycle& cycle) {
    const std::vector<Bytes> live = LeastLive(cycle, StayingPlan(cycle));
    const Bytes most = *std::max_element(live.begin(), live.end());
    return std::max(1.0, static_cast<double>(Count(most)));
  }

  struct Lane {
    double bandwidth = 0;
    Terms all;      // by period
    Terms waiting;  // those of them that only the wait has time for
  };

  double Scaled(Bytes bytes) const {
    return static_cast<double>(Count(bytes)) / bytes_;
  }
  int Op(int period) const { return period % c_.Ops(); }

  // Adds the share of the update that the host does.
  void AddShare(const CycleUpdate& update) {
    shares_.push_back(update.host < 0 ? kNoColumn : mip_.AddReal(0, 1));
    share_of_[update.weight] = shares_.back();
    if (update.state >= 0) share_of_[update.state] = shares_.back();
    device_[update.op].push_back({shares_.back(), update.device / unit_});
  }

  void AddTimes(int k) {
    waits_.push_back(mip_.AddReal(0, kInfinity));
    double least = c_.ops[k].time / unit_;
    for (const Term& update : device_[k]) {
      if (update.column == kNoColumn) least += update.factor;
    }
    ops_.push_back(mip_.AddReal(least, kInfinity));
    for (int column : {waits_.back(), ops_.back()}) mip_.cost[column] = 1;
    double all = c_.ops[k].time / unit_;
    for (const Term& update : device_[k]) all += update.factor;
    device_[k].push_back({ops_[k], 1});
    mip_.AddRow(all, device_[k], kInfinity);
    room_[k] -= Scaled(c_.ops[k].bytes);
  }

  void AddItem(const CycleItem& item) {
    const int first = item.lasts ? 0 : item.uses.front().op;
    const int last = item.lasts ? c_.Ops() - 1 : item.uses.back().op;
    for (int k = first; k <= last; ++k) room_[k] -= Scaled(item.bytes);
  }

  Sum AddSum(int begin, int end, Bytes bytes, Lane* lane) {
    Sum sum{begin};
    for (int p = begin; p < end; ++p) {
      const int before = sum.At(p - 1);
      const int now = mip_.AddReal(0, Scaled(bytes));
      mip_.AddRow(0, {{now, 1}, {before, -1}}, kInfinity);
      for (const Term& term : {Term{now, 1}, Term{before, -1}}) {
        lane->all[Op(p)].push_back(term);
      }
      sum.column.push_back(now);
    }
    return sum;
  }

  // The output of op `from` is copied in the wait behind it at the earliest.
  Sum AddOut(int from, int end, Bytes bytes) {
    const Sum sum = AddSum(from, end, bytes, &out_);
    if (from < end) out_.waiting[Op(from)].push_back({sum.column[0], 1});
    return sum;
  }

  void AddCopy(const CycleCopy& copy) {
    int end = copy.writer;
    for (const CycleGap& gap : c_.gaps) {
      if (&c_.copies[gap.copy] != &copy) continue;
      end = std::max(end, gap.before - 1 + Shift(gap));
    }
    copied_.push_back(AddOut(copy.writer, end, c_.items[copy.item].bytes));
  }

  // Ops on from the writer of the content that the gap's item has.
  int Shift(const CycleGap& gap) const {
    return gap.after < c_.copies[gap.copy].writer ? c_.Ops() : 0;
  }

  void AddGap(const CycleGap& gap) {
    const Bytes bytes = c_.items[gap.item].bytes;
    const Sum back = AddSum(gap.after + 1, gap.before + 1, bytes, &in_);
    returns_.push_back(back);
    const int last = back.At(gap.before);
    const int before = back.At(gap.before - 1);
    in_.waiting[Op(gap.before)].push_back({last, 1});
    in_.waiting[Op(gap.before)].push_back({before, -1});
    const int share = share_of_[gap.item];
    const bool is_state = c_.items[gap.item].what == ChainAction::Item::kState;
    for (int k = gap.after + 1; k < gap.before; ++k) {
      const int away = mip_.AddReal(0, Scaled(bytes));
      const Term on_host = {share, -Scaled(bytes)};
      mip_.AddRow(
          -kInfinity,
          {{away, 1}, {copied_[gap.copy].At(k - 1 + Shift(gap)), -1}, on_host},
          0);
      // A state that the host works on does not come back.
      std::vector<Term> row = {{away, 1}, {last, -1}, {back.At(k), 1}};
      if (is_state) row.push_back(on_host);
      mip_.AddRow(-kInfinity, row, 0);
      memory_[Op(k)].push_back({away, -1});
    }
    if (is_state) {
      memory_[gap.after].push_back({share, -Scaled(bytes)});
    }
  }

  // All of the weight comes back, behind the gradient.
  void AddHostUpdate(const CycleUpdate& update, int share) {
    host_.push_back({share, update.host / unit_});
    const Sum& back = returns_[update.gap];
    const double weight = Scaled(c_.items[update.weight].bytes);
    mip_.AddRow(0, {{back.column.back(), 1}, {share, -weight}}, kInfinity);
    if (update.grad < 0) return;
    const CycleItem& grad = c_.items[update.grad];
    const double bytes = Scaled(grad.bytes);
    const int end = grad.uses.front().op + c_.Ops();
    const Sum gone = AddOut(update.op, end, grad.bytes);
    for (int k = update.op + 1; k < end; ++k) {
      const int here = mip_.AddReal(0, bytes);
      mip_.AddRow(0, {{here, 1}, {gone.At(k - 1), 1}, {share, -bytes}},
                  kInfinity);
      memory_[Op(k)].push_back({here, 1});
    }
    for (int k = update.op + 1; k <= c_.gaps[update.gap].before; ++k) {
      mip_.AddRow(
          -kInfinity,
          {{back.At(k), 1}, {gone.At(k), -weight / bytes}, {share, weight}},
          weight);
    }
  }

  void AddLimits(int k) {
    mip_.AddRow(-kInfinity, memory_[k], room_[k]);
    const Term op = {ops_[k], -1};
    AddLane(out_, k, op, {waits_[Op(k + 1)], -1});
    AddLane(in_, k, op, {waits_[k], -1});
  }

  void AddLane(const Lane& lane, int k, Term op, Term wait) {
    const double speed = lane.bandwidth * unit_ / bytes_;
    op.factor *= speed;
    wait.factor *= speed;
    const auto add = [&](std::vector<Term> row) {
      if (row.empty()) return;
      row.push_back(wait);
      mip_.AddRow(-kInfinity, row, 0);
    };
    add(lane.waiting[k]);
    std::vector<Term> all = lane.all[k];
    if (!all.empty()) all.push_back(op);
    add(all);
  }

  void AddHostTime() {
    if (host_.empty()) return;
    for (int column : waits_) host_.push_back({column, -1});
    for (int column : ops_) host_.push_back({column, -1});
    mip_.AddRow(-kInfinity, host_, 0);
  }

  const Cycle& c_;
  const double bytes_;
  Time whole_ = 0;
  Time unit_ = 1;
  Mip mip_;
  std::vector<double> room_;   // by op, with every item here
  Terms memory_;               // by op
  Terms device_;               // by op: its updates
  std::vector<int> shares_;    // by update
  std::vector<int> share_of_;  // by item
  std::vector<int> waits_;
  std::vector<int> ops_;
  Lane out_;
  Lane in_;
  std::vector<Sum> copied_;   // by copy
  std::vector<Sum> returns_;  // by gap
  std::vector<Term> host_;
};

// Reduces the stage's ops to the bytes and times that they take at least, in
// whatever way it is run.
void LeaveLeast(const Chain& chain, int i, CycleOp* forward,
                CycleOp* backward) {
  const Bytes always = chain.x[0] + (i == 0 ? Bytes{} : chain.x[i]);
  const Bytes gradients = chain.x[i] + chain.x[i + 1];
  Bytes made = chain.x[i + 1] + chain.ft[i];
  Bytes saved = chain.xb[i + 1] + chain.bt[i];
  for (const ChainOption& way : SavingWays(chain, i)) {
    made = std::min(made, way.xb + way.ft);
    saved = std::min(saved, way.xb + way.bt);
    forward->time = std::min(forward->time, way.fw);
    backward->time = std::min(backward->time, way.bw);
  }
  forward->bytes = always + made;
  backward->bytes = always + gradients + saved;
}

}  // namespace

absl::StatusOr<CycleBound> BoundCycle(const Cycle& cycle, Bytes budget,
                                      absl::Duration time_limit) {
  return Program(cycle, budget).Solve(time_limit);
}

absl::StatusOr<CycleBound> BoundWeights(const Chain& chain, Bytes budget,
                                        bool values_free,
                                        absl::Duration time_limit) {
  const int stages = Stages(chain);
  Cycle cycle = KeptCycle(chain);
  if (values_free) {
    for (int i = 0; i < stages; ++i) {
      LeaveLeast(chain, i, &cycle.ops[i], &cycle.ops[2 * stages - i]);
    }
    cycle.ops[stages].bytes = chain.x[0];
  }
  return BoundCycle(cycle, budget, time_limit);
}

}  // namespace ebbtide
