#include "profiler/run_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "profiler/block_books.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

template <typename Number>
Number Median(std::vector<Number> numbers) {
  if (numbers.empty()) return {};
  const auto middle = numbers.begin() + (numbers.size() - 1) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// Steps by their number in the run; the report has the last ones.
std::vector<Followed> FollowedOf(const Json& report) {
  std::vector<Followed> plans;
  const int64_t first = report.at("first_step");
  const std::vector<double> times = report.at("step_times");
  const std::vector<int64_t> peaks = report.at("step_peaks");
  for (const Json& plan : report.at("plans")) {
    Followed followed;
    std::vector<Time> measured;
    for (const int64_t step : plan.at("steps")) {
      const int64_t at = step - first;
      if (at < 0 || at >= static_cast<int64_t>(times.size()) ||
          at >= static_cast<int64_t>(peaks.size())) {
        continue;
      }
      measured.push_back(1e9 * times[at]);
      followed.measured_peak =
          std::max(followed.measured_peak, Bytes{peaks[at]});
    }
    followed.steps = static_cast<int64_t>(measured.size());
    followed.measured_time = Median(std::move(measured));
    followed.predicted_time = 1e9 * plan.at("predicted_time").get<double>();
    followed.predicted_peak = Bytes{plan.at("predicted_peak").get<int64_t>()};
    if (followed.steps > 0) plans.push_back(followed);
  }
  return plans;
}

std::string TextOf(const Json& report, const char* member) {
  const auto found = report.find(member);
  return found == report.end() ? "" : found->dump();
}

std::optional<RunFacts::Report> ReportOf(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    RunFacts::Report report;
    report.state = json.at("state");
    report.reason = json.at("reason");
    report.followed = FollowedOf(json);
    for (const auto& [why, bytes] : json.at("not_replayable").items()) {
      report.obstacles.push_back({why, Bytes{bytes.get<int64_t>()}});
    }
    std::stable_sort(
        report.obstacles.begin(), report.obstacles.end(),
        [](const Obstacle& a, const Obstacle& b) { return a.bytes > b.bytes; });
    report.coverage = TextOf(json, "saved");
    report.out_of_memory = TextOf(json, "out_of_memory");
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

// All but who is alive at the peak.
class Summary final : public TraceVisitor {
 public:
  explicit Summary(RunFacts* facts) : facts_(*facts) {}

  void OnName(std::string name) override { names_.push_back(std::move(name)); }
  void OnSample(const CurveSample& sample) override { See(sample.live); }
  void OnBlock(const BlockEvent& event) override {
    books_.Apply(event);
    if (See(books_.live())) highest_ = events_;
    ++events_;
  }
  void OnStepBegin(int64_t index, int64_t time) override {
    began_[index] = time;
  }
  void OnStepEnd(const StepRecord& step) override {
    ++facts_.steps;
    if (const auto began = began_.find(step.index); began != began_.end()) {
      times_.push_back(static_cast<Time>(step.end - began->second));
      began_.erase(began);
    }
    if (step.peak <= step_peak_) return;
    step_peak_ = step.peak;
    facts_.peak_step = step.index;
  }
  void OnGap(const TraceGap& gap) override { AddGap(gap, &facts_.gaps); }
  void OnBudget(const BudgetChange& change) override {
    facts_.budget = change.budget;
  }
  void OnEviction(const Eviction& eviction) override {
    EvictedName& evicted = evicted_[eviction.name];
    const bool is_drop = eviction.how == Eviction::How::kDrop;
    ++(is_drop ? evicted.drops : evicted.spills);
    (is_drop ? evicted.dropped : evicted.spilled) += eviction.bytes;
  }
  void OnText(TraceText text) override {
    if (text.kind == TextKind::kProfile) facts_.profile = std::move(text.text);
    if (text.kind == TextKind::kPlan) facts_.plan = std::move(text.text);
    if (text.kind == TextKind::kReport) facts_.report = ReportOf(text.text);
  }

  // The event after which most is alive; -1: there is none.
  int64_t highest() const { return highest_; }
  void Finish();

 private:
  // True if more is alive than ever before.
  bool See(const BytesByKind& live) {
    if (facts_.live && Total(live) <= Total(*facts_.live)) return false;
    facts_.live = live;
    return true;
  }

  RunFacts& facts_;
  std::vector<std::string> names_;
  BlockBooks books_;
  int64_t events_ = 0;
  int64_t highest_ = -1;
  absl::flat_hash_map<int64_t, int64_t> began_;  // steps that have not ended
  Bytes step_peak_{};
  std::vector<Time> times_;
  absl::flat_hash_map<int, EvictedName> evicted_;
};

void Summary::Finish() {
  if (facts_.live) facts_.peak = Total(*facts_.live);
  // The budget may bound more than live bytes, so the peaks of steps count.
  if (step_peak_ >= facts_.peak) {
    facts_.peak = step_peak_;
  } else {
    facts_.peak_step = -1;
  }
  facts_.step_time = Median(std::move(times_));
  for (auto& [name, evicted] : evicted_) {
    evicted.name = names_[name];
    facts_.evictions.push_back(std::move(evicted));
  }
  std::sort(facts_.evictions.begin(), facts_.evictions.end(),
            [](const EvictedName& a, const EvictedName& b) {
              const Bytes of_a = a.dropped + a.spilled;
              const Bytes of_b = b.dropped + b.spilled;
              return of_a != of_b ? of_a > of_b : a.name < b.name;
            });
}

// The blocks alive after an event, and the later treatment of the largest of
// them.
class Holders final : public TraceVisitor {
 public:
  Holders(int64_t event, size_t most) : left_(event), most_(most) {}

  void OnName(std::string name) override { names_.push_back(std::move(name)); }
  void OnBlock(const BlockEvent& event) override {
    if (left_ < 0) return;
    books_.Apply(event);
    if (event.what == BlockEvent::What::kFree) notes_.erase(event.block);
    if (event.what == BlockEvent::What::kForget) notes_.clear();
    if (left_-- == 0) Choose();
  }
  void OnNote(const BlockNote& note) override {
    // After the peak the books stay as they were there.
    if (books_.Find(note.block) == nullptr) return;
    Known& known = notes_[note.block];
    if (note.what == BlockNote::What::kShape) known.shape = note.name;
    if (note.what == BlockNote::What::kMadeBy) known.made_by = note.name;
    if (note.what == BlockNote::What::kOfLayer) known.layer = note.name;
    if (note.what == BlockNote::What::kReturns) known.done = "brought back";
  }
  void OnEviction(const Eviction& eviction) override {
    const auto chosen = std::find_if(
        chosen_.begin(), chosen_.end(),
        [&](const auto& each) { return each.first == eviction.value; });
    if (left_ >= 0 || chosen == chosen_.end()) return;
    notes_[eviction.value].done = eviction.how == Eviction::How::kDrop
                                      ? "dropped later"
                                      : "copied away later";
  }

  void Finish(RunFacts* facts);

 private:
  struct Known {
    int shape = -1;
    int made_by = -1;
    int layer = -1;
    const char* done = "";
  };

  void Choose() {
    chosen_.assign(books_.alive().begin(), books_.alive().end());
    std::sort(chosen_.begin(), chosen_.end(), [](const auto& a, const auto& b) {
      return std::pair(b.second.bytes, a.first) <
             std::pair(a.second.bytes, b.first);
    });
    count_ = static_cast<int64_t>(chosen_.size());
    for (const auto& [number, block] : chosen_) bytes_ += block.bytes;
    if (chosen_.size() > most_) chosen_.resize(most_);
  }
  std::string NameOf(const BlockBooks::Block& block, const Known& known) const;

  int64_t left_;  // events up to that one
  const size_t most_;
  std::vector<std::string> names_;
  BlockBooks books_;
  absl::flat_hash_map<int64_t, Known> notes_;
  std::vector<std::pair<int64_t, BlockBooks::Block>> chosen_;  // by number
  int64_t count_ = 0;
  Bytes bytes_{};
};

std::string Holders::NameOf(const BlockBooks::Block& block,
                            const Known& known) const {
  const int op = block.name >= 0 ? block.name : known.made_by;
  std::vector<std::string> parts;
  if (op >= 0) parts.push_back(names_[op]);
  if (op < 0 && known.layer < 0) parts.push_back("of no recorded op");
  if (known.shape >= 0) parts.push_back(names_[known.shape]);
  return absl::StrJoin(parts, " ");
}

void Holders::Finish(RunFacts* facts) {
  facts->alive_count = count_;
  facts->alive_bytes = bytes_;
  for (const auto& [number, block] : chosen_) {
    const auto found = notes_.find(number);
    const Known known = found == notes_.end() ? Known() : found->second;
    facts->alive.push_back({.name = NameOf(block, known),
                            .layer = known.layer < 0 ? "" : names_[known.layer],
                            .bytes = block.bytes,
                            .kind = block.kind,
                            .done = known.done});
  }
}

}  // namespace

absl::StatusOr<RunFacts> FactsOf(const TraceSource& source, size_t most) {
  RunFacts facts;
  Summary summary(&facts);
  const auto end = source(summary);
  if (!end.ok()) return end.status();
  facts.complete = end->complete;
  facts.damage = end->damage;
  facts.dropped_records = end->dropped;
  summary.Finish();
  if (summary.highest() < 0) return facts;
  Holders holders(summary.highest(), most);
  const auto again = source(holders);
  if (!again.ok()) return again.status();
  holders.Finish(&facts);
  return facts;
}

}  // namespace ebbtide
