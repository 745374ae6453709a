#include "planner/place_pages.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace ebbtide {
namespace {

// Free pieces of [begin, end); no two touch.
class Holes {
 public:
  Holes(int64_t begin, int64_t end) { Insert(begin, end); }

  bool Has(int64_t begin, int64_t end) const {
    const auto next = by_begin_.upper_bound(begin);
    return next != by_begin_.begin() && std::prev(next)->second >= end;
  }
  // Where the smallest one begins that has room.
  std::optional<int64_t> Smallest(int64_t size) const {
    const auto hole = by_size_.lower_bound({size, 0});
    if (hole == by_size_.end()) return std::nullopt;
    return hole->second;
  }
  // Adds whole pages, from the smallest holes on, until there are `count`.
  void AddPages(int64_t count, int64_t page,
                std::vector<int64_t>* pages) const {
    for (auto hole = by_size_.lower_bound({page, 0});
         hole != by_size_.end() && std::ssize(*pages) < count; ++hole) {
      const auto [size, begin] = *hole;
      for (int64_t i = AlignUp(begin, page) / page;
           (i + 1) * page <= begin + size && std::ssize(*pages) < count; ++i) {
        pages->push_back(i);
      }
    }
  }

  // It is free.
  void Take(int64_t begin, int64_t end) {
    const auto hole = std::prev(by_begin_.upper_bound(begin));
    const auto [hole_begin, hole_end] = *hole;
    Erase(hole);
    Insert(hole_begin, begin);
    Insert(end, hole_end);
  }
  void Give(int64_t begin, int64_t end) {
    const auto next = by_begin_.find(end);
    if (next != by_begin_.end()) {
      end = next->second;
      Erase(next);
    }
    const auto after = by_begin_.lower_bound(begin);
    if (after != by_begin_.begin() && std::prev(after)->second == begin) {
      begin = std::prev(after)->first;
      Erase(std::prev(after));
    }
    Insert(begin, end);
  }

 private:
  void Insert(int64_t begin, int64_t end) {
    if (begin == end) return;
    by_begin_[begin] = end;
    by_size_.insert({end - begin, begin});
  }
  void Erase(std::map<int64_t, int64_t>::const_iterator hole) {
    by_size_.erase({hole->second - hole->first, hole->first});
    by_begin_.erase(hole);
  }

  std::map<int64_t, int64_t> by_begin_;            // to their ends
  std::set<std::pair<int64_t, int64_t>> by_size_;  // and begin
};

class Placer {
 public:
  Placer(Bytes page, int64_t pages)
      : page_(Count(page)), memory_(pages * Count(page)), all_(0, memory_) {}

  // A buffer that exists at both ends of the program, and not in the gap:
  // others may have its place in between. False where there is no room.
  bool PlaceForEver(int64_t size, const Lifetime& gap, PageSpot* spot) {
    if (for_ever_ + size > memory_) return false;
    spot->offset = Bytes{for_ever_};
    all_.Take(for_ever_, for_ever_ + size);
    lent_.emplace(for_ever_, Lent{.begin = gap.begin[0],
                                  .end = gap.end[0],
                                  .holes = {for_ever_, for_ever_ + size}});
    for_ever_ += size;
    return true;
  }
  std::optional<PageSpot> Place(int64_t size, int64_t hint,
                                const Lifetime& live) {
    // Places in gaps come first: they have room for fewer buffers.
    std::vector<Holes*> holes;
    for (auto& [begin, lent] : lent_) {
      if (lent.begin <= live.begin[0] && live.end[0] <= lent.end) {
        holes.push_back(&lent.holes);
      }
    }
    holes.push_back(&all_);
    auto spot = Find(size, hint, holes);
    if (!spot) return spot;
    ForEachPiece(*spot, size, [this](int64_t begin, int64_t end) {
      HolesAt(begin).Take(begin, end);
    });
    return spot;
  }
  void Remove(const PageSpot& spot, int64_t size) {
    ForEachPiece(spot, size, [this](int64_t begin, int64_t end) {
      HolesAt(begin).Give(begin, end);
    });
  }

 private:
  struct Lent {
    int64_t begin = 0;
    int64_t end = 0;
    Holes holes;
  };

  std::optional<PageSpot> Find(int64_t size, int64_t hint,
                               const std::vector<Holes*>& holes) const {
    PageSpot spot = {.offset = Bytes{hint}};
    if (all_.Has(hint, hint + size)) return spot;
    for (const Holes* part : holes) {
      if (const auto hole = part->Smallest(size)) {
        spot.offset = Bytes{*hole};
        return spot;
      }
    }
    const int64_t needed = (size - 1) / page_ + 1;
    if (size < page_) return std::nullopt;
    for (const Holes* part : holes) {
      part->AddPages(needed, page_, &spot.pages);
    }
    if (std::ssize(spot.pages) < needed) return std::nullopt;
    std::sort(spot.pages.begin(), spot.pages.end());
    return spot;
  }
  Holes& HolesAt(int64_t offset) {
    if (offset >= for_ever_) return all_;
    return std::prev(lent_.upper_bound(offset))->second.holes;
  }
  template <typename Visit>
  void ForEachPiece(const PageSpot& spot, int64_t size, Visit visit) const {
    if (spot.pages.empty()) {
      return visit(Count(spot.offset), Count(spot.offset) + size);
    }
    for (const int64_t i : spot.pages) visit(i * page_, (i + 1) * page_);
  }

  const int64_t page_;
  const int64_t memory_;
  Holes all_;                     // holes outside of places in gaps
  std::map<int64_t, Lent> lent_;  // by begin
  int64_t for_ever_ = 0;          // below it lie the buffers that exist at both
                                  // ends
};

}  // namespace

std::optional<std::vector<PageSpot>> PlaceInPages(const PlaceProblem& problem,
                                                  absl::Span<const Bytes> hints,
                                                  Bytes page, int64_t pages) {
  const auto& buffers = problem.buffers;
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return buffers[a].live.begin[0] < buffers[b].live.begin[0];
  });
  using End = std::pair<int64_t, int>;  // end of the buffer
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  Placer placer(page, pages);
  std::vector<PageSpot> spots(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].gaps.empty()) continue;
    const int64_t size = Count(buffers[i].size);
    if (!placer.PlaceForEver(size, buffers[i].gaps[0], &spots[i])) {
      return std::nullopt;
    }
  }
  for (const int i : order) {
    if (!buffers[i].gaps.empty()) continue;
    while (!ends.empty() && ends.top().first <= buffers[i].live.begin[0]) {
      const int over = ends.top().second;
      placer.Remove(spots[over], Count(buffers[over].size));
      ends.pop();
    }
    auto spot =
        placer.Place(Count(buffers[i].size), Count(hints[i]), buffers[i].live);
    if (!spot) return std::nullopt;
    spots[i] = *std::move(spot);
    ends.push({buffers[i].live.end[0], i});
  }
  return spots;
}

}  // namespace ebbtide
