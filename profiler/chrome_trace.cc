#include "profiler/chrome_trace.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiler/block_books.h"
#include "profiler/thinned_curve.h"

namespace ebbtide {
namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// Spans of one row, each inside of another or beside it.
class Row {
 public:
  explicit Row(int number) : number_(number) {}
  int number() const { return number_; }

  // In about the order of their ends. False where it would overlap with
  // another, or might.
  bool Takes(const Span& span) {
    size_t before = outer_.size();
    while (before > 0 && outer_[before - 1].first >= span.begin) {
      if (outer_[before - 1].second > span.end) return false;
      --before;
    }
    if (before > 0 && outer_[before - 1].second > span.begin) return false;
    outer_.resize(before);
    outer_.emplace_back(span.begin, span.end);
    // Spans far back are one span for those that would reach so far.
    if (outer_.size() > kMost) {
      outer_[1].first = outer_[0].first;
      outer_.erase(outer_.begin());
    }
    return true;
  }

 private:
  static constexpr size_t kMost = 256;
  const int number_;
  // Begin and end of those inside of no other, by begin.
  std::vector<std::pair<int64_t, int64_t>> outer_;
};

class Counter final : public TraceVisitor {
 public:
  void OnSample(const CurveSample& /*sample*/) override { ++events; }
  void OnBlock(const BlockEvent& /*event*/) override { ++events; }
  int64_t events = 0;
};

class ChromeWriter final : public TraceVisitor {
 public:
  ChromeWriter(int64_t events, int points, std::ostream& out)
      : curve_(events, points), out_(out) {
    out_ << R"({"displayTimeUnit":"ms","traceEvents":[)";
  }

  void OnStart(const TraceStart& start) override { start_ = start; }
  void OnName(std::string name) override { names_.push_back(Quoted(name)); }
  void OnSample(const CurveSample& sample) override {
    AddPoint(sample.time, CausesOf(sample.live, Bytes{0}));
  }
  void OnBlock(const BlockEvent& event) override {
    books_.Apply(event);
    AddPoint(event.time, CausesOf(books_.live(), books_.workspace()));
  }
  void OnTier(const TierSample& sample) override {
    AddTier("host memory", sample.host, sample.time, &has_host_);
    AddTier("disk", sample.disk, sample.time, &has_disk_);
  }
  void OnBudget(const BudgetChange& change) override {
    Add('C', "\"budget\"", change.time, kSteps,
        absl::StrCat(R"(,"args":{"budget":)", Count(change.budget), "}"));
  }
  void OnStepBegin(int64_t index, int64_t time) override {
    step_ = {.index = index, .begin = time};
  }
  void OnStepEnd(const StepRecord& step) override {
    // The record of its beginning may have been left out.
    const int64_t begin = step_.index == step.index ? step_.begin : step.end;
    Add('X', absl::StrCat("\"step ", step.index, "\""), begin, kSteps,
        absl::StrCat(R"(,"dur":)", Micros(step.end - begin),
                     R"(,"args":{"peak":)", Count(step.peak), "}"));
  }
  void OnGap(const TraceGap& gap) override {
    Add('i',
        Quoted(absl::StrCat("steps ", gap.first, " to ", gap.last,
                            " were not recorded")),
        gap.begin, kSteps, R"(,"cat":"gap","s":"p")");
  }
  void OnSpan(const Span& span) override;
  void OnEviction(const Eviction& eviction) override {
    const bool dropped = eviction.how == Eviction::How::kDrop;
    const SpanKind kind = dropped ? SpanKind::kRecompute : SpanKind::kOffload;
    Add('i', names_[eviction.name], eviction.time, FirstRow(kind),
        absl::StrCat(R"(,"cat":")", dropped ? "drop" : "offload",
                     R"(","s":"t","args":{"bytes":)", Count(eviction.bytes),
                     R"(,"by":")", eviction.planned ? "plan" : "demand",
                     "\"}"));
  }

  void Finish() {
    curve_.Flush([this](const auto& point) { AddCounter(point); });
    NameRow(kSteps, "steps");
    for (int kind = 0; kind < kSpanKinds; ++kind) {
      const std::string name = SpanKindName(static_cast<SpanKind>(kind));
      NameRow(FirstRow(static_cast<SpanKind>(kind)), name);
      for (size_t i = 1; i < rows_[kind].size(); ++i) {
        NameRow(rows_[kind][i].number(), absl::StrCat(name, " ", i + 1));
      }
    }
    Add('M', "\"process_name\"", start_.time, kSteps,
        R"(,"args":{"name":"ebbtide"})");
    out_ << "]}\n";
  }

 private:
  // The rows under the process: steps, then the kinds, with room between them
  // for more rows of each.
  static constexpr int kSteps = 0;
  static constexpr int kRowsOfKind = 10'000;
  static constexpr int FirstRow(SpanKind kind) {
    return (1 + static_cast<int>(kind)) * kRowsOfKind;
  }

  std::string Micros(int64_t nanos) const {
    const char* const sign = nanos < 0 ? "-" : "";
    const uint64_t size = nanos < 0 ? 0 - static_cast<uint64_t>(nanos) : nanos;
    return absl::StrFormat("%s%d.%03d", sign, size / 1000, size % 1000);
  }
  // `name` is quoted; `more` begins with a comma.
  void Add(char phase, const std::string& name, int64_t time, int row,
           const std::string& more) {
    out_ << (is_first_ ? "\n" : ",\n") << R"({"ph":")" << phase
         << R"(","name":)" << name << R"(,"pid":)" << start_.process
         << R"(,"tid":)" << row << R"(,"ts":)" << Micros(time - start_.time)
         << more << "}";
    is_first_ = false;
  }
  void NameRow(int row, const std::string& name) {
    Add('M', "\"thread_name\"", start_.time, row,
        absl::StrCat(R"(,"args":{"name":")", name, "\"}"));
    Add('M', "\"thread_sort_index\"", start_.time, row,
        absl::StrCat(R"(,"args":{"sort_index":)", row, "}"));
  }
  // A run has one tier below, which is named from its first bytes on.
  void AddTier(const char* name, Bytes bytes, int64_t time, bool* is_used) {
    *is_used = *is_used || bytes > Bytes{};
    if (!*is_used) return;
    Add('C', absl::StrCat("\"", name, "\""), time, kSteps,
        absl::StrCat(R"(,"args":{"bytes":)", Count(bytes), "}"));
  }
  void AddPoint(int64_t time, const BytesByCause& live) {
    curve_.Add({.time = time, .event = events_++, .live = live},
               [this](const TimelinePoint& point) { AddCounter(point); });
  }
  void AddCounter(const TimelinePoint& point) {
    std::string args;
    for (int cause = 0; cause < kCauses; ++cause) {
      absl::StrAppend(&args, cause == 0 ? "\"" : ",\"", CauseName(cause),
                      "\":", Count(point.live[cause]));
    }
    Add('C', "\"live bytes\"", point.time, kSteps,
        absl::StrCat(",\"args\":{", args, "}"));
  }
  int RowFor(const Span& span);
  // An arrow from the last copy out of the value to this copy back.
  void AddFlow(const Span& span, int row);

  struct CopyOut {
    int row;
    int64_t begin;
  };

  ThinnedCurve curve_;
  std::ostream& out_;
  TraceStart start_;
  BlockBooks books_;
  std::vector<std::string> names_;
  std::array<std::vector<Row>, kSpanKinds> rows_;
  absl::flat_hash_map<int64_t, CopyOut> copies_out_;  // by value
  int64_t flows_ = 0;
  int64_t events_ = 0;
  StepRecord step_ = {.index = -1};
  bool has_host_ = false;
  bool has_disk_ = false;
  bool is_first_ = true;
};

int ChromeWriter::RowFor(const Span& span) {
  std::vector<Row>& rows = rows_[static_cast<int>(span.kind)];
  for (Row& row : rows) {
    if (row.Takes(span)) return row.number();
  }
  const int number = FirstRow(span.kind) + static_cast<int>(rows.size());
  Row& row = rows.emplace_back(number);
  row.Takes(span);
  return number;
}

void ChromeWriter::AddFlow(const Span& span, int row) {
  if (span.value == kNoBlock) return;
  if (span.kind == SpanKind::kOffload) {
    copies_out_[span.value] = {row, span.begin};
  } else if (span.kind == SpanKind::kRestore) {
    const auto out = copies_out_.find(span.value);
    if (out == copies_out_.end()) return;
    const std::string id = absl::StrCat(R"(,"cat":"value","id":)", ++flows_);
    Add('s', "\"value\"", out->second.begin, out->second.row, id);
    Add('f', "\"value\"", span.begin, row, absl::StrCat(id, R"(,"bp":"e")"));
  }
}

void ChromeWriter::OnSpan(const Span& span) {
  const int row = RowFor(span);
  std::string args;
  if (span.bytes != Bytes{0}) {
    args = absl::StrCat(R"(,"args":{"bytes":)", Count(span.bytes));
    if (span.value != kNoBlock) {
      absl::StrAppend(&args, R"(,"value":)", span.value);
    }
    args += "}";
  }
  Add('X', names_[span.name], span.begin, row,
      absl::StrCat(R"(,"cat":")", SpanKindName(span.kind), R"(","dur":)",
                   Micros(span.end - span.begin), args));
  AddFlow(span, row);
}

}  // namespace

absl::Status WriteChromeTrace(const TraceSource& source, std::ostream& out,
                              int points) {
  Counter counter;
  if (const auto end = source(counter); !end.ok()) return end.status();
  ChromeWriter writer(counter.events, points, out);
  if (const auto end = source(writer); !end.ok()) return end.status();
  writer.Finish();
  return absl::OkStatus();
}

}  // namespace ebbtide
