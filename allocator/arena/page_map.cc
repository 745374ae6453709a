#include "allocator/arena/page_map.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

std::vector<PageRange> RunsOf(std::vector<int64_t> pages) {
  std::sort(pages.begin(), pages.end());
  std::vector<PageRange> runs;
  for (const int64_t page : pages) {
    if (runs.empty() || runs.back().last != page) runs.push_back({page, page});
    ++runs.back().last;
  }
  return runs;
}

PageMap::~PageMap() { ReleaseSpare(); }

absl::Status PageMap::Reserve(Bytes size) {
  const int64_t count = (Count(size) + page_ - 1) / page_;
  const auto base = system_.Reserve(Bytes{count * page_});
  if (!base.ok()) return base.status();
  base_ = *base;
  count_ = count;
  return absl::OkStatus();
}

int64_t PageMap::Missing(int64_t begin, int64_t end) const {
  int64_t missing = 0;
  for (int64_t i = begin / page_; i * page_ < end; ++i) {
    if (!IsMapped(i)) ++missing;
  }
  return missing;
}

bool PageMap::Create(int64_t count) {
  while (spare() < count) {
    if (system_.Room() <= spare()) return false;
    const auto page = system_.Create();
    if (!page.ok()) return false;
    spare_.push_back(*page);
  }
  return true;
}

bool PageMap::Unmap(PageRange pages) {
  const int64_t count = pages.last - pages.first;
  spare_.reserve(spare_.size() + count);  // nothing throws once it is unmapped
  if (!system_.Unmap(base_ + pages.first * page_, count).ok()) return false;
  for (int64_t i = pages.first; i < pages.last; ++i) {
    spare_.push_back(pages_[i].handle);
    pages_[i] = {};
  }
  mapped_ -= count;
  while (!pages_.empty() && !pages_.back().is_mapped) pages_.pop_back();
  return true;
}

absl::Status PageMap::MapSpare(int64_t begin, int64_t end) {
  const int64_t last = (end + page_ - 1) / page_;
  for (int64_t i = begin / page_; i < last;) {
    if (IsMapped(i)) {
      ++i;
      continue;
    }
    const int64_t first = i;
    while (i < last && !IsMapped(i)) ++i;
    const absl::Status mapped = MapRun(first, i - first);
    if (!mapped.ok()) return mapped;
  }
  return absl::OkStatus();
}

absl::Status PageMap::MapRun(int64_t first, int64_t count) {
  if (top() < first + count) pages_.resize(first + count);
  const absl::Span<const uint64_t> pages(&spare_[spare_.size() - count], count);
  const absl::Status mapped = system_.Map(base_ + first * page_, pages);
  if (mapped.ok()) {
    for (int64_t i = 0; i < count; ++i) {
      pages_[first + i] = {.handle = pages[i], .is_mapped = true};
    }
    spare_.resize(spare_.size() - count);
    mapped_ += count;
  }
  while (!pages_.empty() && !pages_.back().is_mapped) pages_.pop_back();
  return mapped;
}

void PageMap::ReleaseSpare() {
  for (const uint64_t page : spare_) system_.Release(page);
  spare_.clear();
}

}  // namespace ebbtide
