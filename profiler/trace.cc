#include "profiler/trace.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiler/trace_format.h"

namespace ebbtide {
namespace {

using trace_format::Context;
using trace_format::Decoder;
using trace_format::Type;

class Reader {
 public:
  // False if the payload is not one of a valid trace.
  bool Read(absl::string_view payload) {
    const auto type = static_cast<Type>(payload.front());
    Decoder in(payload.substr(1), trace_.names.size(), context_);
    const bool known = ReadRecord(type, in);
    return known && in.ok() && in.AtEnd();
  }

  Trace Finish() && { return std::move(trace_); }

 private:
  template <typename Record>
  bool Append(Decoder& in, std::vector<Record>& to) {
    Record record;
    trace_format::Fields(in, record);
    if (in.ok()) to.push_back(record);
    return true;
  }

  bool ReadRecord(Type type, Decoder& in) {
    switch (type) {
      case Type::kStart:
        in.Int(trace_.process);
        in.Int(trace_.unix_nanos);
        in.Time(trace_.start);
        return true;
      case Type::kName:
        trace_.names.emplace_back();
        in.Text(trace_.names.back());
        return true;
      case Type::kSample:
        return Append(in, trace_.curve);
      case Type::kSpan:
        return Append(in, trace_.spans);
      case Type::kStepBegin:
        trace_.steps.emplace_back();
        in.Int(trace_.steps.back().index);
        in.Time(trace_.steps.back().begin);
        return true;
      case Type::kStepEnd:
        return ReadStepEnd(in);
      case Type::kBudget:
        return Append(in, trace_.budgets);
      case Type::kEviction:
        return Append(in, trace_.evictions);
      case Type::kPeak:
        return ReadPeak(in);
      case Type::kText:
        return ReadText(in);
      case Type::kEnd:
        in.Int(trace_.dropped);
        trace_.complete = true;
        return true;
    }
    return false;
  }

  // The record of its beginning may have been left out.
  bool ReadStepEnd(Decoder& in) {
    StepRecord step;
    in.Int(step.index);
    in.Time(step.end);
    in.Size(step.peak);
    step.begin = step.end;
    if (!trace_.steps.empty() && trace_.steps.back().index == step.index) {
      step.begin = trace_.steps.back().begin;
      trace_.steps.pop_back();
    }
    trace_.steps.push_back(step);
    return true;
  }

  bool ReadPeak(Decoder& in) {
    PeakRecord peak;
    in.Time(peak.time);
    in.Int(peak.step);
    while (in.ok() && !in.AtEnd()) {
      trace_format::Fields(in, peak.holders.emplace_back());
    }
    trace_.peaks.push_back(std::move(peak));
    return true;
  }

  bool ReadText(Decoder& in) {
    TraceText part;
    bool more = false;
    in.Choice(part.kind, 5);
    in.Choice(more, 2);
    in.Time(part.time);
    in.Text(part.text);
    if (text_open_) {
      trace_.texts.back().text += part.text;
    } else {
      trace_.texts.push_back(std::move(part));
    }
    text_open_ = more;
    return true;
  }

  Trace trace_;
  Context context_;
  bool text_open_ = false;
};

std::string WhatIsWrong(absl::string_view rest) {
  if (rest.size() < trace_format::kRecordHeader) return "ends inside a record";
  const uint32_t size = trace_format::GetU32(rest.data());
  if (size == 0 || size > trace_format::kMaxPayload) {
    return absl::StrCat("a record of ", size, " bytes");
  }
  if (rest.size() - trace_format::kRecordHeader < size) {
    return "ends inside a record";
  }
  const uint32_t sum =
      trace_format::Crc32c(rest.data() + trace_format::kRecordHeader, size);
  if (sum != trace_format::GetU32(rest.data() + 4)) return "wrong checksum";
  return "";
}

}  // namespace

const char* SpanKindName(SpanKind kind) {
  constexpr const char* kNames[kSpanKinds] = {
      "forward", "backward", "recompute", "offload", "restore", "stall"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<Trace> ParseTrace(const std::string& bytes,
                                 const std::string& origin) {
  absl::string_view rest = bytes;
  const absl::string_view magic = trace_format::kMagic;
  if (rest.size() < trace_format::kFileHeader ||
      rest.substr(0, magic.size()) != magic) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin,
        ": not a trace of ebbtide; expected a file that `ebbtide run "
        "--record FILE` wrote"));
  }
  const uint32_t version = trace_format::GetU32(rest.data() + magic.size());
  if (version != trace_format::kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": trace version ", version, "; this program ",
                     "reads version ", trace_format::kVersion));
  }
  rest.remove_prefix(trace_format::kFileHeader);
  Reader reader;
  std::string damage;
  while (!rest.empty() && damage.empty()) {
    damage = WhatIsWrong(rest);
    if (!damage.empty()) break;
    const uint32_t size = trace_format::GetU32(rest.data());
    if (!reader.Read(rest.substr(trace_format::kRecordHeader, size))) {
      damage = "not a valid record";
      break;
    }
    rest.remove_prefix(trace_format::kRecordHeader + size);
  }
  Trace trace = std::move(reader).Finish();
  if (!damage.empty()) {
    trace.damage =
        absl::StrCat("byte ", bytes.size() - rest.size(), ": ", damage);
  }
  return trace;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) {
    return absl::ErrnoToStatus(EIO, absl::StrCat(path, ": cannot read"));
  }
  return ParseTrace(bytes, path);
}

}  // namespace ebbtide
