#include "planner/rotor.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "planner/rotor_actions.h"

namespace ebbtide {
namespace {

constexpr Time kNever = std::numeric_limits<Time>::infinity();

constexpr int64_t kFewestSlots = 500;  // upstream's default, 0.2 % of a budget
constexpr int64_t kMostSlots = 8192;
constexpr int kMostStages = 700;  // 500 slots: 1 GB and some 30 s

// As many slots as fit into 256 MB and about a second.
int64_t SlotsFor(int stages) {
  const double cells = 0.5 * (stages + 1) * (stages + 2);
  const double steps = cells * (stages + 2) / 3;
  const double slots = std::min(256e6 / 8 / cells, 2e9 / steps);
  return std::clamp(static_cast<int64_t>(slots), kFewestSlots, kMostSlots);
}

}  // namespace

absl::Status CheckRotorSize(const Chain& chain) {
  if (Stages(chain) <= kMostStages) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rotor plans chains of at most ", kMostStages,
                   " stages, this one has ", Stages(chain)));
}

void SortFrees(ChainActions* actions) {
  const auto is_free = [](const ChainAction& a) {
    return a.what == ChainAction::Do::kFree;
  };
  auto begin = actions->begin();
  while (begin != actions->end()) {
    begin = std::find_if(begin, actions->end(), is_free);
    const auto end = std::find_if_not(begin, actions->end(), is_free);
    std::sort(begin, end, [](const ChainAction& a, const ChainAction& b) {
      return std::pair(a.stage, a.item) < std::pair(b.stage, b.item);
    });
    begin = end;
  }
}

RotorTable::RotorTable(const Chain& chain, Bytes most)
    : stages_(Stages(chain)), input_(Count(chain.x[0])) {
  const int64_t units = std::max<int64_t>(0, Count(most) - input_);
  const int64_t limit = SlotsFor(stages_);
  unit_ = std::max<int64_t>(1, (units + limit - 1) / limit);
  slots_ = static_cast<int>(units / unit_);
  for (Bytes x : chain.x) x_.push_back(SlotsOf(x));
  x_.push_back(0);
  for (Bytes ft : chain.ft) ft_.push_back(SlotsOf(ft));
  walked_ = {0};
  for (Time fw : chain.fw) walked_.push_back(walked_.back() + fw);
  for (int i = 0; i < stages_; ++i) {
    ways_.emplace_back();
    for (const ChainOption& way : SavingWays(chain, i)) {
      const int keeps = SlotsOf(way.xb);
      const int runs = keeps + SlotsOf(way.ft);
      const int back = x_[i] + x_[i + 1] + keeps + SlotsOf(way.bt);
      ways_[i].push_back(
          {way.fw, way.bw, keeps, runs, std::max(x_[i + 1] + runs, back)});
    }
  }
  const int loss = x_[stages_] + SlotsOf(chain.bt[stages_]);
  ways_.push_back({{0, chain.bw[stages_], 0, 0, loss}});
  table_.assign(Row(stages_, stages_) + slots_ + 1, kNever);
  for (int i = 0; i <= stages_; ++i) FillStage(i);
  for (int d = 1; d <= stages_; ++d) {
    for (int i = 0; i + d <= stages_; ++i) FillCell(i, i + d);
  }
}

// Rounded up; what cannot fit anyway is cut so that sums stay small.
int RotorTable::SlotsOf(Bytes bytes) const {
  const int64_t slots = (Count(bytes) + unit_ - 1) / unit_;
  return static_cast<int>(std::min<int64_t>(slots, slots_ + 1));
}

int RotorTable::FreeSlots(Bytes budget) const {
  if (Count(budget) < input_) return -1;
  return static_cast<int>(
      std::min<int64_t>((Count(budget) - input_) / unit_, slots_));
}

size_t RotorTable::Row(int i, int l) const {
  const size_t cell =
      static_cast<size_t>(i) * (2 * stages_ + 3 - i) / 2 + l - i;
  return cell * (slots_ + 1);
}

// Least slots to walk from x[i] up to stage l with y[l+1] alive.
int RotorTable::Walk(int i, int l) const {
  int most = x_[i + 1] + ft_[i];
  for (int j = i + 1; j < l; ++j) {
    most = std::max(most, x_[j] + x_[j + 1] + ft_[j]);
  }
  return x_[l + 1] + most;
}

void RotorTable::FillStage(int i) {
  Time* row = &table_[Row(i, i)];
  for (const Way& way : ways_[i]) {
    for (int m = way.least; m <= slots_; ++m) {
      row[m] = std::min(row[m], way.fw + way.bw);
    }
  }
}

void RotorTable::FillCell(int i, int l) {
  Time* row = &table_[Row(i, l)];
  const int walk = Walk(i, l);
  for (int j = i + 1; j <= l; ++j) {
    // Reading at m - x[j]; only where m >= x[j].
    const Time* right = &table_[Row(j, l)];
    const Time* left = &table_[Row(i, j - 1)];
    const Time walked = walked_[j] - walked_[i];
    const int from = std::max(walk, x_[j]);
    const int shift = x_[j];
    for (int m = from; m <= slots_; ++m) {
      const Time time = walked + right[m - shift] + left[m];
      row[m] = time < row[m] ? time : row[m];
    }
  }
  const Time* rest = &table_[Row(i + 1, l)];
  for (const Way& way : ways_[i]) {
    // The forward runs with y[l+1] alive, which upstream does not count.
    const int from =
        std::max({walk, way.keeps, way.least, x_[l + 1] + way.runs});
    for (int m = from; m <= slots_; ++m) {
      row[m] = std::min(row[m], way.fw + way.bw + rest[m - way.keeps]);
    }
  }
}

// No back-pointers: the same expressions as in FillCell, so the least of them
// equals the cell.
RotorTable::Choice RotorTable::Choose(int i, int l, int m) const {
  const Time best = table_[Row(i, l) + m];
  const int walk = Walk(i, l);
  for (size_t w = 0; w < ways_[i].size(); ++w) {
    const Way& way = ways_[i][w];
    if (m < std::max({walk, way.keeps, way.least, x_[l + 1] + way.runs})) {
      continue;
    }
    const Time rest = table_[Row(i + 1, l) + m - way.keeps];
    if (way.fw + way.bw + rest == best) return {.way = static_cast<int>(w)};
  }
  for (int j = i + 1; j <= l; ++j) {
    if (m < std::max(walk, x_[j])) continue;
    const Time time = walked_[j] - walked_[i] + table_[Row(j, l) + m - x_[j]] +
                      table_[Row(i, j - 1) + m];
    if (time == best) return {.jump = j};
  }
  return {};
}

void RotorTable::Emit(int i, int l, int m, ChainActions* actions) const {
  if (i == stages_) {
    actions->push_back({ChainAction::Do::kLoss});
    return;
  }
  if (i == l) {
    const Way* best = nullptr;
    int save = 0;
    for (const Way& way : ways_[i]) {
      if (m < way.least) continue;
      if (best != nullptr && best->fw + best->bw <= way.fw + way.bw) continue;
      best = &way;
      save = static_cast<int>(best - ways_[i].data()) + 1;
    }
    EmitForward(i, save, actions);
    EmitBackward(i, actions);
    return;
  }
  const Choice choice = Choose(i, l, m);
  if (choice.way >= 0) {
    EmitForward(i, choice.way + 1, actions);
    Emit(i + 1, l, m - ways_[i][choice.way].keeps, actions);
    EmitBackward(i, actions);
    return;
  }
  const int j = choice.jump;
  EmitWalk(i, j, actions);
  Emit(j, l, m - x_[j], actions);
  EmitFree(ChainAction::Item::kX, j, actions);
  Emit(i, j - 1, m, actions);
}

std::optional<Time> RotorTable::TimeAt(Bytes budget) const {
  const int m = FreeSlots(budget);
  if (m < 0 || table_[Row(0, stages_) + m] == kNever) return std::nullopt;
  return table_[Row(0, stages_) + m];
}

ChainActions RotorTable::PlanAt(Bytes budget) const {
  ChainActions actions;
  if (!TimeAt(budget).has_value()) return actions;
  Emit(0, stages_, FreeSlots(budget), &actions);
  SortFrees(&actions);
  return actions;
}

std::vector<CurvePoint> RotorTable::Curve() const {
  std::vector<CurvePoint> curve;
  const Time* row = &table_[Row(0, stages_)];
  for (int m = 0; m <= slots_; ++m) {
    if (row[m] == kNever) continue;
    if (!curve.empty() && curve.back().time <= row[m]) continue;
    curve.push_back({Bytes{input_ + m * unit_}, row[m]});
  }
  return curve;
}

}  // namespace ebbtide
