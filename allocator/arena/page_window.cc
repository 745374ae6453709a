#include "allocator/arena/page_window.h"

#include <algorithm>
#include <functional>
#include <utility>

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
    if (!std::invoke(use, it->second)) {
      ++it;
      continue;
    }
    Group group = {.first = it, .begin = it->first, .end = it->second.end};
    for (++it; it != extents.end() && it->first == group.end &&
               std::invoke(use, it->second);
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
    const int64_t last = group.end / pages.page();
    const size_t before = found.size();
    for (int64_t i = AlignUp(group.begin, pages.page()) / pages.page();
         i < last; ++i) {
      if (!but.Has(i)) found.push_back({.index = i});
    }
    for (size_t k = before; k < found.size(); ++k) {
      found[k].neighbours = static_cast<int64_t>(found.size() - before);
    }
  };
  for (const FreeExtents& zone : zones) {
    ForEachGroup(zone.all(), &FreeExtent::is_mapped, add);
  }
  return found;
}

std::optional<PageWindow> FindWindow(absl::Span<const FreeExtents> zones,
                                     int zone, const PageMap& pages,
                                     int64_t size, int stream, int64_t idle) {
  const int64_t room = pages.Room();
  std::vector<int64_t> free;  // ascending
  for (const FreePage& page : FreePages(zones, pages, {})) {
    free.push_back(page.index);
  }
  const auto are_before = [&](int64_t page) {
    return std::lower_bound(free.begin(), free.end(), page) - free.begin();
  };
  const auto search = [&](bool of_any_stream) {
    std::optional<PageWindow> best;
    const auto offer = [&](const Group& group, int64_t begin) {
      const int64_t end = begin + size;
      if (begin < group.begin || end > group.end) return;
      const int64_t missing = pages.Missing(begin, end);
      // The window's own free pages are no use.
      const PageRange own = pages.RangeOf(begin, end);
      const int64_t elsewhere =
          std::ssize(free) - (are_before(own.last) - are_before(own.first));
      if (missing > room + idle + elsewhere) return;
      const PageWindow offered = {missing, group.end - group.begin, begin};
      if (!best || offered < *best) best = offered;
    };
    ForEachGroup(
        zones[zone].all(),
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
    return best;
  };
  std::optional<PageWindow> best = search(/*of_any_stream=*/false);
  if (!best || best->missing > room) {
    if (const auto any = search(/*of_any_stream=*/true)) best = any;
  }
  return best;
}

std::optional<PageJoint> FindJoint(absl::Span<const FreeExtents> zones,
                                   const PageMap& pages, int64_t size,
                                   int64_t available) {
  using Part = std::pair<int64_t, int64_t>;  // its size, where it begins
  std::vector<Part> heads = {{0, 0}};
  std::vector<Part> tails;
  const int64_t page = pages.page();
  for (const FreeExtents& zone : zones) {
    ForEachGroup(zone.all(), &FreeExtent::is_mapped, [&](const Group& group) {
      const int64_t first = AlignUp(group.begin, page);
      const int64_t last = group.end / page * page;
      if (group.begin < first && first <= group.end) {
        heads.emplace_back(first - group.begin, group.begin);
      }
      if (group.begin <= last && last < group.end) {
        tails.emplace_back(group.end - last, last);
      }
    });
  }
  std::sort(tails.begin(), tails.end());
  std::optional<PageJoint> best;
  for (const auto& [head_size, head] : heads) {
    if (head_size >= size) continue;
    PageJoint joint = {.head = head,
                       .head_size = head_size,
                       .pages = (size - head_size) / page};
    const int64_t rest = (size - head_size) % page;
    const auto tail =
        std::lower_bound(tails.begin(), tails.end(), Part{rest, 0});
    if (rest > 0 && tail == tails.end()) {
      ++joint.pages;
    } else if (rest > 0) {
      joint.tail = tail->second;
      joint.tail_size = rest;
    }
    if (joint.pages <=
        std::min(available, best ? best->pages - 1 : available)) {
      best = joint;
    }
  }
  return best;
}

}  // namespace ebbtide
