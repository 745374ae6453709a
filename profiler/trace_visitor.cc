#include "profiler/trace_visitor.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiler/trace_format.h"

namespace ebbtide {
namespace {

using trace_format::Context;
using trace_format::Decoder;
using trace_format::Type;

// Hands on the records of a file whose header has been read.
class Reader {
 public:
  Reader(uint32_t version, TraceVisitor& visitor)
      : version_(version), visitor_(visitor) {}

  // False if the payload is not one of a valid trace.
  bool Read(absl::string_view payload) {
    const auto type = static_cast<Type>(payload.front());
    Decoder in(payload.substr(1), version_, names_, context_);
    return ReadRecord(type, in) && in.ok() && in.AtEnd();
  }

  TraceEnd end;

 private:
  template <typename Record>
  bool Hand(Decoder& in, void (TraceVisitor::*on)(const Record&)) {
    Record record;
    trace_format::Fields(in, record);
    if (in.ok()) (visitor_.*on)(record);
    return true;
  }

  bool ReadRecord(Type type, Decoder& in) {
    switch (type) {
      case Type::kStart:
        return ReadStart(in);
      case Type::kName:
        return ReadName(in);
      case Type::kSample:
        return Hand(in, &TraceVisitor::OnSample);
      case Type::kSpan:
        return Hand(in, &TraceVisitor::OnSpan);
      case Type::kStepBegin:
        return ReadStepBegin(in);
      case Type::kStepEnd:
        return ReadStepEnd(in);
      case Type::kBudget:
        return Hand(in, &TraceVisitor::OnBudget);
      case Type::kEviction:
        return Hand(in, &TraceVisitor::OnEviction);
      case Type::kPeak:
        return ReadPeak(in);
      case Type::kText:
        return ReadText(in);
      case Type::kEnd:
        in.Int(end.dropped);
        end.complete = true;
        return true;
      case Type::kBlock:
        return ReadBlock(in);
      case Type::kNote:
        return Hand(in, &TraceVisitor::OnNote);
      case Type::kTier:
        return Hand(in, &TraceVisitor::OnTier);
      case Type::kDetailEnd:
        return ReadDetailEnd(in);
      case Type::kGap:
        return ReadGap(in);
    }
    return false;
  }

  bool ReadStart(Decoder& in) {
    TraceStart start;
    in.Int(start.process);
    in.Int(start.unix_nanos);
    in.Time(start.time);
    if (in.ok()) visitor_.OnStart(start);
    return true;
  }

  bool ReadName(Decoder& in) {
    std::string name;
    in.Text(name);
    if (!in.ok()) return false;
    ++names_;
    visitor_.OnName(std::move(name));
    return true;
  }

  bool ReadStepBegin(Decoder& in) {
    int64_t index = 0;
    int64_t time = 0;
    in.Int(index);
    in.Time(time);
    if (in.ok()) visitor_.OnStepBegin(index, time);
    return true;
  }

  bool ReadStepEnd(Decoder& in) {
    StepRecord step;
    in.Int(step.index);
    in.Time(step.end);
    in.Size(step.peak);
    if (in.ok()) visitor_.OnStepEnd(step);
    return true;
  }

  bool ReadPeak(Decoder& in) {
    PeakRecord peak;
    in.Time(peak.time);
    in.Int(peak.step);
    while (in.ok() && !in.AtEnd()) {
      trace_format::Fields(in, peak.holders.emplace_back());
    }
    if (in.ok()) visitor_.OnPeak(std::move(peak));
    return true;
  }

  bool ReadText(Decoder& in) {
    TraceText part;
    bool more = false;
    in.Choice(part.kind, 5);
    in.Choice(more, 2);
    in.Time(part.time);
    in.Text(part.text);
    if (!in.ok()) return false;
    if (text_open_) {
      text_.text += part.text;
    } else {
      text_ = std::move(part);
    }
    text_open_ = more;
    if (!more) visitor_.OnText(std::exchange(text_, {}));
    return true;
  }

  bool ReadBlock(Decoder& in) {
    BlockEvent event;
    trace_format::Fields(in, event);
    using What = BlockEvent::What;
    if (event.what == What::kFound) event.what = What::kAllocate;
    if (in.ok()) visitor_.OnBlock(event);
    return true;
  }

  bool ReadGap(Decoder& in) {
    TraceGap gap;
    trace_format::Fields(in, gap);
    int64_t blocks = 0;
    in.SkipBlocks(blocks);
    // One that only counts blocks has no steps.
    if (in.ok() && gap.first <= gap.last) visitor_.OnGap(gap);
    return true;
  }

  bool ReadDetailEnd(Decoder& in) {
    int64_t time = 0;
    in.Time(time);
    if (in.ok()) visitor_.OnDetailEnd(time);
    return true;
  }

  const uint32_t version_;
  TraceVisitor& visitor_;
  Context context_;
  int64_t names_ = 0;
  TraceText text_;
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

absl::StatusOr<uint32_t> Version(absl::string_view head,
                                 const std::string& origin) {
  const absl::string_view magic = trace_format::kMagic;
  if (head.size() < trace_format::kFileHeader ||
      head.substr(0, magic.size()) != magic) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin,
        ": not a trace of ebbtide; expected a file that `ebbtide run "
        "--record FILE` wrote"));
  }
  const uint32_t version = trace_format::GetU32(head.data() + magic.size());
  if (version < trace_format::kOldestVersion ||
      version > trace_format::kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": trace version ", version, "; this program reads versions ",
        trace_format::kOldestVersion, " to ", trace_format::kVersion));
  }
  return version;
}

// Reads the whole records that `bytes` begins with; how many bytes they are. At
// least one record's worth is left unread unless the bytes are the last.
size_t ReadRecords(absl::string_view bytes, bool is_last, int64_t at,
                   Reader& reader) {
  constexpr size_t kLargest =
      trace_format::kRecordHeader + trace_format::kMaxPayload;
  absl::string_view rest = bytes;
  while (is_last ? !rest.empty() : rest.size() >= kLargest) {
    std::string damage = WhatIsWrong(rest);
    const uint32_t size =
        damage.empty() ? trace_format::GetU32(rest.data()) : 0;
    if (damage.empty() &&
        !reader.Read(rest.substr(trace_format::kRecordHeader, size))) {
      damage = "not a valid record";
    }
    const size_t done = bytes.size() - rest.size();
    if (!damage.empty()) {
      reader.end.damage = absl::StrCat("byte ", at + done, ": ", damage);
      break;
    }
    rest.remove_prefix(trace_format::kRecordHeader + size);
  }
  return bytes.size() - rest.size();
}

}  // namespace

TraceSource SourceOf(const std::string& path) {
  return [path](TraceVisitor& visitor) { return VisitTrace(path, visitor); };
}

absl::StatusOr<TraceEnd> VisitTraceBytes(absl::string_view bytes,
                                         const std::string& origin,
                                         TraceVisitor& visitor) {
  const auto version = Version(bytes, origin);
  if (!version.ok()) return version.status();
  bytes.remove_prefix(trace_format::kFileHeader);
  Reader reader(*version, visitor);
  ReadRecords(bytes, /*is_last=*/true, trace_format::kFileHeader, reader);
  return reader.end;
}

absl::StatusOr<TraceEnd> VisitTrace(const std::string& path,
                                    TraceVisitor& visitor) {
  constexpr size_t kChunk = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  std::string buffer(trace_format::kFileHeader, '\0');
  file.read(buffer.data(), buffer.size());
  buffer.resize(file.gcount());
  const auto version = Version(buffer, path);
  if (!version.ok()) return version.status();
  Reader reader(*version, visitor);
  int64_t at = trace_format::kFileHeader;
  buffer.clear();
  while (file && reader.end.damage.empty()) {
    const size_t kept = buffer.size();
    buffer.resize(kept + kChunk);
    file.read(buffer.data() + kept, kChunk);
    buffer.resize(kept + file.gcount());
    if (file.bad()) {
      return absl::ErrnoToStatus(EIO, absl::StrCat(path, ": cannot read"));
    }
    const size_t done = ReadRecords(buffer, file.eof(), at, reader);
    at += static_cast<int64_t>(done);
    buffer.erase(0, done);
  }
  return reader.end;
}

}  // namespace ebbtide
