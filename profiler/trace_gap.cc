#include "profiler/trace_gap.h"

#include <algorithm>

namespace ebbtide {

using What = BlockEvent::What;

void MissedDetail::Add(const TraceDetail& detail) {
  if (const auto* block = std::get_if<BlockEvent>(&detail)) AddBlock(*block);
  if (const auto* note = std::get_if<BlockNote>(&detail)) AddNote(*note);
  if (const auto* tier = std::get_if<TierSample>(&detail)) tier_ = *tier;
}

void MissedDetail::AddBlock(const BlockEvent& event) {
  switch (event.what) {
    case What::kAllocate:
    case What::kFound:
      found_[event.block] = {
          .bytes = event.bytes, .kind = event.kind, .name = event.name};
      return;
    case What::kFree:
      if (found_.erase(event.block) > 0) return;
      retagged_.erase(event.block);
      freed_.emplace_back(event.block, event.bytes);
      return;
    case What::kRetag:
      if (const auto found = found_.find(event.block); found != found_.end()) {
        found->second.kind = event.kind;
      } else {
        retagged_[event.block] = event.kind;
      }
      return;
    case What::kForget:
      freed_.clear();
      retagged_.clear();
      found_.clear();
      forgotten_ = true;
  }
}

void MissedDetail::AddNote(const BlockNote& note) {
  const auto found = found_.find(note.block);
  if (found == found_.end()) return;
  auto& notes = found->second.notes;
  const auto same = std::find_if(
      notes.begin(), notes.end(),
      [&](const BlockNote& each) { return each.what == note.what; });
  if (same == notes.end()) {
    notes.push_back(note);
  } else {
    *same = note;
  }
}

std::vector<TraceDetail> MissedDetail::CatchUp(int64_t time, Bytes rest,
                                               Bytes told, Bytes live) const {
  std::vector<TraceDetail> details;
  std::vector<size_t> events;
  const auto add = [&](BlockEvent event, Bytes from_rest) {
    rest -= from_rest;
    event.time = time;
    event.rest = rest;
    events.push_back(details.size());
    details.emplace_back(event);
  };
  const Bytes sum = rest + told;
  if (forgotten_) add({.what = What::kForget}, Bytes{0} - told);
  for (const auto& [block, bytes] : freed_) {
    add({.what = What::kFree, .block = block, .bytes = bytes},
        Bytes{0} - bytes);
  }
  for (const auto& [block, kind] : retagged_) {
    add({.what = What::kRetag, .block = block, .kind = kind}, Bytes{0});
  }
  for (const auto& [block, found] : found_) {
    add({.what = What::kFound,
         .block = block,
         .bytes = found.bytes,
         .kind = found.kind,
         .name = found.name},
        found.bytes);
    for (const BlockNote& note : found.notes) details.emplace_back(note);
  }
  // More counts from the first event on, less from the last: so the rest is
  // never below nothing.
  if (!events.empty() && live != sum) {
    const size_t from = live > sum ? 0 : events.size() - 1;
    for (size_t i = from; i < events.size(); ++i) {
      std::get<BlockEvent>(details[events[i]]).rest += live - sum;
    }
  }
  if (tier_) {
    TierSample tier = *tier_;
    tier.time = time;
    details.emplace_back(tier);
  }
  return details;
}

}  // namespace ebbtide
