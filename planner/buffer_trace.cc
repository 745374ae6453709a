#include "planner/buffer_trace.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace ebbtide {
namespace {

using Fields = std::vector<absl::string_view>;

constexpr absl::string_view kRmm = "Thread,Time,Action,Pointer,Size,Stream";
// Sums and differences of instants stay within 64 bits.
constexpr int64_t kLastInstant = int64_t{1} << 60;

class CsvReader {
 public:
  CsvReader(absl::string_view text, absl::string_view name)
      : lines_(absl::StrSplit(text, '\n')), name_(name) {
    while (!lines_.empty() && absl::StripAsciiWhitespace(lines_.back()).empty())
      lines_.pop_back();
  }

  absl::StatusOr<BufferTrace> Read() {
    if (lines_.empty()) return Wrong("expected a line with column names");
    const bool rmm = absl::StripTrailingAsciiWhitespace(lines_[0]) == kRmm;
    if (auto s = rmm ? ReadLog() : ReadColumns(); !s.ok()) return s;
    if (auto s = CheckPlaceProblem(trace_.problem); !s.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": ", s.message(), " (buffers from 0)"));
    }
    return std::move(trace_);
  }

 private:
  template <class... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_ + 1, ": ", parts...));
  }

  Fields FieldsOf(size_t line) {
    line_ = line;
    Fields fields = absl::StrSplit(lines_[line], ',');
    for (absl::string_view& f : fields) f = absl::StripAsciiWhitespace(f);
    return fields;
  }

  absl::Status ReadColumns() {
    const Fields names = FieldsOf(0);
    for (absl::string_view name : names) {
      const bool known = name == "id" || name == "lower" || name == "upper" ||
                         name == "size" || name == "alignment" ||
                         name == "gaps" || name == "offset";
      if (!known || !columns_.emplace(name, columns_.size()).second) {
        return Wrong(
            "expected the columns id,lower,upper,size and any of "
            "alignment, gaps, offset, once each, got \"",
            name, "\"");
      }
    }
    for (absl::string_view name : {"id", "lower", "upper", "size"}) {
      if (!columns_.contains(name)) return Wrong("expected a column ", name);
    }
    for (size_t line = 1; line < lines_.size(); ++line) {
      if (auto s = ReadBuffer(FieldsOf(line)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::string_view Field(const Fields& fields, absl::string_view name) const {
    const auto found = columns_.find(name);
    return found == columns_.end() ? "" : fields[found->second];
  }

  absl::Status ReadBuffer(const Fields& fields) {
    if (fields.size() != columns_.size()) {
      return Wrong("expected ", columns_.size(), " fields, got ",
                   fields.size());
    }
    Buffer b{.size = {}, .live = {}, .gaps = {}, .offset = {}};
    std::optional<int64_t> size;
    std::optional<int64_t> alignment = 1;
    if (auto s = ReadNumber(fields, "size", &size); !s.ok()) return s;
    if (auto s = ReadNumber(fields, "alignment", &alignment); !s.ok()) return s;
    std::optional<int64_t> offset;
    if (auto s = ReadNumber(fields, "offset", &offset); !s.ok()) return s;
    if (!size) return Wrong("size: expected a whole number, got nothing");
    b.size = Bytes{*size};
    b.alignment = Bytes{*alignment};
    if (offset) b.offset = Bytes{*offset};
    if (!ReadClock(Field(fields, "lower"), &b.live.begin) ||
        !ReadClock(Field(fields, "upper"), &b.live.end)) {
      return Wrong(
          "lower and upper: expected whole numbers from 0 to 2^60, "
          "one per stream with ; between, got \"",
          Field(fields, "lower"), "\" and \"", Field(fields, "upper"), "\"");
    }
    for (absl::string_view text :
         absl::StrSplit(Field(fields, "gaps"), ' ', absl::SkipEmpty())) {
      const Fields ends = absl::StrSplit(text, '-');
      Lifetime gap;
      if (ends.size() != 2 || !ReadClock(ends[0], &gap.begin) ||
          !ReadClock(ends[1], &gap.end)) {
        return Wrong("gaps: expected from-to with blanks between, got \"", text,
                     "\"");
      }
      b.gaps.push_back(std::move(gap));
    }
    return Add(Field(fields, "id"), std::move(b), 0);
  }

  // An empty field leaves the number as it is.
  absl::Status ReadNumber(const Fields& fields, absl::string_view name,
                          std::optional<int64_t>* number) const {
    const absl::string_view text = Field(fields, name);
    int64_t value = 0;
    if (text.empty()) return absl::OkStatus();
    if (!absl::SimpleAtoi(text, &value) || value < 0 || value >= kMostBytes) {
      return Wrong(name, ": expected a whole number from 0 to 2^60, got \"",
                   text, "\"");
    }
    *number = value;
    return absl::OkStatus();
  }

  static bool ReadClock(absl::string_view text, VectorClock* clock) {
    for (absl::string_view part : absl::StrSplit(text, ';')) {
      int64_t at = 0;
      if (!absl::SimpleAtoi(part, &at) || at < 0 || at > kLastInstant) {
        return false;
      }
      clock->push_back(at);
    }
    return true;
  }

  absl::Status Add(absl::string_view id, Buffer b, int stream) {
    if (id.empty()) return Wrong("id: expected a name");
    if (!ids_.insert(id).second) {
      return Wrong("id: expected each once, got \"", id, "\" again");
    }
    trace_.ids.emplace_back(id);
    trace_.streams.push_back(stream);
    trace_.problem.buffers.push_back(std::move(b));
    return absl::OkStatus();
  }

  absl::Status ReadLog() {
    for (size_t line = 1; line < lines_.size(); ++line) {
      const Fields fields = FieldsOf(line);
      if (fields.size() != 6) {
        return Wrong("expected 6 fields, got ", fields.size());
      }
      if (auto s = ReadEvent(fields, static_cast<int64_t>(line) - 1); !s.ok())
        return s;
    }
    const auto end = static_cast<int64_t>(lines_.size()) - 1;
    for (const auto& [pointer, id] : here_) {
      trace_.problem.buffers[id].live.end = {end};
    }
    return absl::OkStatus();
  }

  absl::Status ReadEvent(const Fields& fields, int64_t at) {
    const absl::string_view action = fields[2];
    const absl::string_view pointer = fields[3];
    if (action == "allocate failure") return absl::OkStatus();
    if (action == "free") {
      const auto found = here_.find(pointer);
      if (found == here_.end()) {
        return Wrong("Pointer: expected one that was allocated, got \"",
                     pointer, "\"");
      }
      trace_.problem.buffers[found->second].live.end = {at};
      here_.erase(found);
      return absl::OkStatus();
    }
    if (action != "allocate") {
      return Wrong(
          "Action: expected allocate, allocate failure or free, got "
          "\"",
          action, "\"");
    }
    int64_t size = 0;
    if (!absl::SimpleAtoi(fields[4], &size) || size < 0 || size >= kMostBytes) {
      return Wrong("Size: expected a whole number from 0 to 2^60, got \"",
                   fields[4], "\"");
    }
    if (size == 0) size = 1;  // it has an address of its own
    const int id = static_cast<int>(trace_.ids.size());
    if (!here_.emplace(pointer, id).second) {
      return Wrong("Pointer: expected one that was freed, got \"", pointer,
                   "\" again");
    }
    const int stream =
        streams_.emplace(fields[5], static_cast<int>(streams_.size()))
            .first->second;
    trace_.ids.push_back(absl::StrCat(line_ + 1));
    trace_.streams.push_back(stream);
    trace_.problem.buffers.push_back({.size = Bytes{size},
                                      .live = {{at}, {at + 1}},
                                      .gaps = {},
                                      .offset = {}});
    return absl::OkStatus();
  }

  std::vector<absl::string_view> lines_;
  const absl::string_view name_;
  size_t line_ = 0;
  BufferTrace trace_;
  absl::flat_hash_map<absl::string_view, size_t> columns_;
  absl::flat_hash_set<absl::string_view> ids_;
  absl::flat_hash_map<absl::string_view, int> here_;     // by pointer
  absl::flat_hash_map<absl::string_view, int> streams_;  // by name
};

}  // namespace

absl::StatusOr<BufferTrace> BufferTraceFromCsv(absl::string_view text,
                                               absl::string_view name) {
  return CsvReader(text, name).Read();
}

std::string PlacementToCsv(const BufferTrace& trace,
                           absl::Span<const Bytes> offsets) {
  std::string csv = "id,offset";
  for (size_t k = 0; k < offsets.size(); ++k) {
    absl::StrAppend(&csv, "\n", trace.ids[k], ",", Count(offsets[k]));
  }
  return csv;
}

}  // namespace ebbtide
