#include "allocator/arena/free_memory.h"

#include <algorithm>

#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// Parts of the addresses, in 16ths, by zone; the last one has the rest.
constexpr std::array<int64_t, FreeMemory::kZones> kParts = {1, 3, 3, 9};

}  // namespace

absl::Status FreeMemory::Reserve(Bytes size) {
  const absl::Status reserved = pages_.Reserve(size);
  if (!reserved.ok()) return reserved;
  int64_t parts = 0;
  for (int zone = 0; zone < kZones; ++zone) {
    const auto at = [&] {
      return AlignUp(pages_.size() / 16 * parts, pages_.page());
    };
    begins_[zone] = at();
    parts += kParts[zone];
    const int64_t end = zone + 1 < kZones ? at() : pages_.size();
    zones_[zone].Add(begins_[zone], {.end = end});
  }
  return reserved;
}

FreeExtents& FreeMemory::At(int64_t offset) {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), offset);
  return zones_[next - begins_.begin() - 1];
}

bool FreeMemory::Take(int64_t begin, int64_t end, int stream) {
  if (begin == end) return true;
  StreamUses uses = At(begin).Take(begin, end);
  for (const StreamUse& use : uses) {
    if (use.stream == stream) continue;
    StreamMark mark = use.end;
    if (mark == nullptr) {
      const auto now = order_.Mark(use.stream);
      if (now.ok()) mark = *now;
    }
    if (mark != nullptr && order_.RunBehind(mark, stream).ok()) continue;
    Add(begin, end, std::move(uses));
    return false;
  }
  return true;
}

std::optional<PageRange> FreeMemory::TakeAddresses(int64_t count) {
  std::erase_if(left_, [this](int64_t page) {
    if (pages_.IsMapped(page)) return false;
    const int64_t begin = page * pages_.page();
    zones_[kPassing].Add(begin, {.end = begin + pages_.page()});
    return true;
  });
  for (const auto& [begin, extent] : zones_[kPassing].all()) {
    const int64_t first = AlignUp(begin, pages_.page());
    const int64_t end = first + count * pages_.page();
    if (extent.is_mapped || extent.end < end) continue;
    zones_[kPassing].Take(first, end);
    return pages_.RangeOf(first, end);
  }
  return std::nullopt;
}

void FreeMemory::GiveAddresses(int64_t begin, int64_t end,
                               const StreamUses& uses) {
  while (begin < end) {
    const int64_t page = begin / pages_.page();
    const int64_t next = std::min(end, (page + 1) * pages_.page());
    if (!pages_.IsMapped(page)) {
      zones_[kPassing].Add(begin, {.end = next});
    } else if (pages_.IsOwn(page)) {
      Add(begin, next, uses);
    } else if (next - begin == pages_.page()) {
      left_.push_back(page);
    }
    begin = next;
  }
}

bool FreeMemory::TakePages(int64_t count, PageRange but) {
  const std::vector<int64_t> taken =
      ages_.Oldest(count - pages_.spare(), FreePages(zones_, pages_, but));
  if (taken.empty() || !ages_.WaitFor(taken)) return false;
  for (const PageRange& run : RunsOf(taken)) TakeRun(run);
  return pages_.spare() >= count;
}

void FreeMemory::TakeRun(PageRange run) {
  std::vector<StreamUses> uses;
  bool is_spare = true;
  for (int64_t i = run.first; i < run.last; ++i) {
    const int64_t begin = i * pages_.page();
    uses.push_back(At(begin).Take(begin, begin + pages_.page()));
    for (const StreamUse& use : uses.back()) {
      is_spare &= use.stream != StreamUse::kOutside || WaitFor(use.end);
    }
  }
  is_spare = is_spare && pages_.Unmap(run);
  for (int64_t i = run.first; i < run.last; ++i) {
    const int64_t begin = i * pages_.page();
    StreamUses& before = uses[i - run.first];
    At(begin).Add(begin, {begin + pages_.page(), !is_spare,
                          is_spare ? StreamUses() : std::move(before)});
  }
}

bool FreeMemory::Map(int64_t begin, int64_t end, int stream) {
  const std::vector<PageRange> missing =
      pages_.Runs(pages_.RangeOf(begin, end), /*is_mapped=*/false);
  const bool is_mapped = pages_.MapSpare(begin, end).ok();
  for (const PageRange& run : missing) {
    if (!pages_.IsMapped(run.first)) continue;
    const int64_t first = run.first * pages_.page();
    const int64_t last = run.last * pages_.page();
    At(first).Take(first, last);
    Add(first, last, {{.stream = stream}});
  }
  return is_mapped;
}

}  // namespace ebbtide
