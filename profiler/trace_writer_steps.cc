// Decides which steps are in the file (profiler/trace_writer.h).
#include <algorithm>
#include <utility>
#include <variant>

#include "profiler/trace_writer_core.h"

namespace ebbtide {
namespace {

using trace_format::Encoder;
using trace_format::Type;

// Parts of the second half of the file, from each to the next of which the
// distance doubles.
constexpr int64_t kParts = 16;
constexpr int64_t kMostDoublings = 40;
// Memory for a step that is held back.
constexpr size_t kMostHeld = (64 << 20) / sizeof(TraceDetail);
// Approximate size of a record in the file.
constexpr int64_t kUsualRecord = 24;
// Steps whose spans may still come.
constexpr size_t kFates = 64;

Type TypeOf(const BlockEvent& /*event*/) { return Type::kBlock; }
Type TypeOf(const BlockNote& /*note*/) { return Type::kNote; }
Type TypeOf(const TierSample& /*sample*/) { return Type::kTier; }
Type TypeOf(const Span& /*span*/) { return Type::kSpan; }
Type TypeOf(const Eviction& /*eviction*/) { return Type::kEviction; }

// Calls with(type, body) for the record of `detail`.
template <typename With>
auto WithRecord(const TraceDetail& detail, With with) {
  return std::visit(
      [&](const auto& record) {
        return with(TypeOf(record),
                    [&](Encoder& out) { trace_format::Fields(out, record); });
      },
      detail);
}

}  // namespace

bool TraceWriter::Core::AddDetail(const TraceDetail& detail) {
  if (!held) {
    return WithRecord(detail, [&](Type type, auto body) {
      return Append(type, TraceWorth::kDetail, kSmallRecord, body);
    });
  }
  const Span* const span = std::get_if<Span>(&detail);
  if (span != nullptr && span->begin < held->begin) {
    return AddEarlierSpan(*span);
  }
  if (!held->is_whole) {
    missed.Add(detail);
    return true;
  }
  held->details.push_back(detail);
  if (held->details.size() >= kMostHeld) {
    for (const TraceDetail& each : held->details) missed.Add(each);
    held->details = {};
    held->is_whole = false;
  }
  return true;
}

// Work of a device is recorded later, in the step in which it was done.
bool TraceWriter::Core::AddEarlierSpan(Span span) {
  const auto step =
      std::find_if(fates.rbegin(), fates.rend(),
                   [&](const auto& fate) { return fate.first <= span.begin; });
  const bool is_in = step == fates.rend() || step->second;
  if (!is_in || IsFull(2 * kSmallRecord)) return true;
  // The file does not know of it yet.
  if (span.value >= context.blocks) span.value = kNoBlock;
  return Append(Type::kSpan, TraceWorth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, span); });
}

int64_t TraceWriter::Core::Distance() const {
  const int64_t half = Count(options.max_size) / 2;
  const int64_t parts = (size - half) / std::max<int64_t>(half / kParts, 1);
  return int64_t{2} << std::clamp<int64_t>(parts, 0, kMostDoublings);
}

int64_t TraceWriter::Core::RoomForLastStep() const {
  if (!thins || is_end) return 0;
  return std::min(largest_step + largest_step / 4, Count(options.max_size) / 4);
}

void TraceWriter::Core::NoteSize(int64_t step) {
  largest_step = std::max(largest_step, step);
}

void TraceWriter::Core::BeginThinning() {
  thins = true;
  told = in_blocks;
  next_block = context.blocks;
  for (const auto& [block, bytes] : late_frees) {
    missed.AddFree(block, bytes);
    in_blocks -= bytes;
  }
  late_frees.clear();
}

void TraceWriter::Core::BeginStep(int64_t index, int64_t time) {
  if (held) {
    SettleStep(/*is_last=*/false);
  } else {
    NoteSize(detail_bytes - detail_before_step);
    last_kept = index - 1;
  }
  detail_before_step = detail_bytes;
  Append(Type::kStepBegin, TraceWorth::kKeep, kSmallRecord, [&](Encoder& out) {
    out.Int(index);
    out.Time(time);
  });
  if (detail_ended) return;
  if (!thins && size > Count(options.max_size) / 2) BeginThinning();
  if (!thins) return;
  held = HeldStep{.index = index,
                  .begin = time,
                  .is_due = index - last_kept >= Distance(),
                  .first_block = next_block,
                  .live = live,
                  .details = std::move(spare)};
}

void TraceWriter::Core::EndStep(const StepRecord& step) {
  if (held && held->index == step.index && !is_end) {
    held->end = step;
    return;
  }
  Append(Type::kStepEnd, TraceWorth::kKeep, kSmallRecord, [&](Encoder& out) {
    out.Int(step.index);
    out.Time(step.end);
    out.Size(step.peak);
  });
}

void TraceWriter::Core::SettleStep(bool is_last) {
  const bool is_kept = held->is_whole && (held->is_due || is_last) &&
                       status.ok() && WriteStep(is_last);
  if (!is_kept) LeaveOutStep();
  fates.emplace_back(held->begin, is_kept);
  if (fates.size() > kFates) fates.pop_front();
  const std::optional<StepRecord> end = held->end;
  spare = std::move(held->details);
  spare.clear();
  held.reset();
  if (end) EndStep(*end);
}

// False: it finds no room.
bool TraceWriter::Core::WriteStep(bool is_last) {
  const size_t filled = filling.size();
  const int64_t size_before = size;
  const trace_format::Context context_before = context;
  const int64_t blocks = held->first_block - context.blocks;
  if (untold || blocks > 0) {
    const TraceGap gap = untold.value_or(TraceGap{.first = 1});
    Put(Type::kGap, [&](Encoder& out) {
      trace_format::Fields(out, gap);
      out.SkipBlocks(blocks);
    });
  }
  const auto put = [this](const TraceDetail& detail) {
    WithRecord(detail, [&](Type type, auto body) { return Put(type, body); });
  };
  for (const TraceDetail& each :
       missed.CatchUp(held->begin, context.rest, told, held->live)) {
    put(each);
  }
  const int64_t step_from = size;
  for (const TraceDetail& each : held->details) put(each);
  NoteSize(size - step_from);
  constexpr int64_t kForTheEnd = 128;
  const bool fits =
      is_last ? size <= Count(options.max_size) - kForTheEnd : !IsFull(0);
  if (!fits) {
    filling.resize(filled);
    size = size_before;
    context = context_before;
    return false;
  }
  missed = {};
  untold.reset();
  told = in_blocks;
  last_kept = held->index;
  return true;
}

void TraceWriter::Core::LeaveOutStep() {
  for (const TraceDetail& each : held->details) missed.Add(each);
  NoteSize(static_cast<int64_t>(held->details.size()) * kUsualRecord);
  const int64_t end = held->end ? held->end->end : held->begin;
  if (untold) {
    untold->last = held->index;
    untold->end = end;
  } else {
    untold = {held->index, held->index, held->begin, end};
  }
  TellGap();
}

void TraceWriter::Core::TellGap() {
  if (!HasRoom(TraceWorth::kKeep, kSmallRecord)) return;
  const int64_t blocks = next_block - context.blocks;
  const bool is_told =
      Append(Type::kGap, TraceWorth::kKeep, kSmallRecord, [&](Encoder& out) {
        trace_format::Fields(out, *untold);
        out.SkipBlocks(blocks);
      });
  if (is_told) untold.reset();
}

}  // namespace ebbtide
