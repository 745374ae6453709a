#include "allocator/arena/page_window.h"

#include <algorithm>
#include <tuple>

#include "planner/place_problem.h"

namespace ebbtide {
namespace {

// Extents that touch, one behind the other.
struct Group {
  FreeExtents::Map::const_iterator first;
  FreeExtents::Map::const_iterator last;  // behind them
  int64_t begin = 0;
  int64_t end = 0;
};

template <typename Use, typename Visit>
void ForEachGroup(const FreeExtents::Map& extents, Use use, Visit visit) {
  for (auto it = extents.begin(); it != extents.end();) {
    if (!use(it->second)) {
      ++it;
      continue;
    }
    Group group = {.first = it, .begin = it->first, .end = it->second.end};
    for (++it; it != extents.end() && it->first == group.end && use(it->second);
         ++it) {
      group.end = it->second.end;
    }
    group.last = it;
    visit(group);
  }
}

}  // namespace

std::vector<FreePage> FreePages(absl::Span<const FreeExtents> zones,
                                const PageMap& pages, PageRange but) {
  std::vector<FreePage> found;
  const auto add = [&](const Group& group) {
    const int64_t last = std::min(group.end / pages.page(), pages.top());
    const size_t before = found.size();
    for (int64_t i = AlignUp(group.begin, pages.page()) / pages.page();
         i < last; ++i) {
      if (pages.IsMapped(i) && !but.Has(i)) found.push_back({.index = i});
    }
    for (size_t k = before; k < found.size(); ++k) {
      found[k].neighbours = static_cast<int64_t>(found.size() - before);
    }
  };
  for (const FreeExtents& zone : zones) {
    ForEachGroup(
        zone.all(), [](const FreeExtent&) { return true; }, add);
  }
  return found;
}

PageCensus::PageCensus(absl::Span<const FreeExtents> zones,
                       const PageMap& pages, int64_t room)
    : page_(pages.page()),
      room_(room),
      missing_(pages.top() + 1),
      free_(pages.top() + 1) {
  for (const FreePage& page : FreePages(zones, pages, {})) {
    free_[page.index + 1] = 1;
  }
  for (int64_t i = 0; i < pages.top(); ++i) {
    missing_[i + 1] = missing_[i] + (pages.IsMapped(i) ? 0 : 1);
    free_[i + 1] += free_[i];
  }
}

int64_t PageCensus::Missing(int64_t begin, int64_t end) const {
  return MissingBefore((end + page_ - 1) / page_) -
         MissingBefore(begin / page_);
}

int64_t PageCensus::MissingBefore(int64_t page) const {
  const auto top = static_cast<int64_t>(missing_.size()) - 1;
  return missing_[std::min(page, top)] + std::max<int64_t>(0, page - top);
}

bool PageCensus::Has(int64_t missing, int64_t begin, int64_t end) const {
  const auto top = static_cast<int64_t>(free_.size()) - 1;
  const int64_t outside = free_[top] -
                          free_[std::min((end + page_ - 1) / page_, top)] +
                          free_[std::min(begin / page_, top)];
  return missing <= room_ + outside;
}

std::optional<PageWindow> FindWindow(const FreeExtents& extents,
                                     const PageCensus& census, int64_t size,
                                     int stream, bool of_any_stream) {
  std::optional<std::tuple<int64_t, int64_t, int64_t>> best;
  const auto offer = [&](const Group& group, int64_t begin) {
    const int64_t end = begin + size;
    if (begin < group.begin || end > group.end) return;
    const int64_t missing = census.Missing(begin, end);
    if (!census.Has(missing, begin, end)) return;
    const std::tuple offered(missing, group.end - group.begin, begin);
    if (!best || offered < *best) best = offered;
  };
  ForEachGroup(
      extents.all(),
      [&](const FreeExtent& extent) {
        return of_any_stream || extent.IsFor(stream);
      },
      [&](const Group& group) {
        if (group.end - group.begin < size) return;
        offer(group, group.begin);
        offer(group, group.end - size);
        for (auto it = group.first; it != group.last; ++it) {
          if (!it->second.is_mapped) continue;
          offer(group, it->first);
          offer(group, it->second.end - size);
        }
      });
  if (!best) return std::nullopt;
  return PageWindow{.begin = std::get<2>(*best), .missing = std::get<0>(*best)};
}

}  // namespace ebbtide
