#include "allocator/arena_fit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// Each slot farther by so much, by its run of `from`.
absl::StatusOr<ArenaPlan> Moved(const ArenaPlan& plan, const ArenaSpace& from,
                                const std::vector<int64_t>& by_run) {
  PlannedPhase phase;
  for (const ArenaPlan::Slot& slot : plan.slots()) {
    phase.push_back(
        {.size = slot.size, .stream = slot.stream, .offset = slot.offset});
    if (slot.offset == kUnplaced) continue;
    phase.back().offset += by_run[*from.RunAt(slot.offset)];
  }
  return ArenaPlan::Make({phase});
}

}  // namespace

absl::StatusOr<std::vector<Bytes>> UsedOf(const ArenaPlan& plan,
                                          const ArenaSpace& space) {
  std::vector<Bytes> used(space.runs().size());
  const absl::Span<const ArenaPlan::Slot> slots = plan.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto [begin, end] = std::pair(slots[i].offset, slots[i].end);
    if (begin == kUnplaced) continue;
    const auto run = space.RunAt(begin);
    if (!run || end > space.EndOf(*run)) {
      return absl::OutOfRangeError(
          absl::StrCat("request ", i, ": expected a run that has the bytes ",
                       begin, " to ", end));
    }
    used[*run] = std::max(used[*run], Bytes{end - space.BeginOf(*run)});
  }
  return used;
}

absl::StatusOr<ArenaFit> FitInto(absl::Span<const ArenaRun> runs,
                                 Bytes fallback, const ArenaPlan& plan,
                                 const ArenaSpace& from) {
  const auto used = UsedOf(plan, from);
  if (!used.ok()) return used.status();
  const size_t count =
      used->size() - std::count(used->begin(), used->end(), Bytes{0});
  ArenaFit fit = {.fallback = fallback};
  std::vector<int64_t> farther(used->size());
  size_t next = 0;
  for (size_t i = 0; i < used->size(); ++i) {
    if ((*used)[i] == Bytes{0}) continue;
    const bool is_last = next + 1 == count;
    const Bytes needed = (*used)[i] + (is_last ? fallback : Bytes{0});
    if (next >= runs.size() || needed > runs[next].size) {
      return absl::OutOfRangeError(
          absl::StrCat("run ", next, ": expected ", Count(needed), " bytes"));
    }
    const ArenaRun& run = runs[next++];
    farther[i] = fit.space.next() - from.BeginOf(i);
    fit.space.Append({.base = run.base, .size = needed});
    const ArenaRun end = {.base = run.base + Count(needed),
                          .size = run.size - needed};
    if (end.size > Bytes{0}) fit.ends.push_back(end);
  }
  if (next != runs.size()) {
    return absl::OutOfRangeError(absl::StrCat("run ", next, ": unused"));
  }
  auto moved = Moved(plan, from, farther);
  if (!moved.ok()) return moved.status();
  fit.plan = *std::move(moved);
  return fit;
}

}  // namespace ebbtide
