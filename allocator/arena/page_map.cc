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

std::vector<PageRange> PageMap::Runs(PageRange range, bool is_mapped) const {
  std::vector<int64_t> pages;
  for (int64_t i = range.first; i < range.last; ++i) {
    if (IsMapped(i) == is_mapped) pages.push_back(i);
  }
  return RunsOf(std::move(pages));
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
  if (!UnmapAliasesOf(pages)) return false;
  if (!system_.Unmap(base_ + pages.first * page_, count).ok()) return false;
  for (int64_t i = pages.first; i < pages.last; ++i) {
    spare_.push_back(pages_[i].handle);
    pages_[i] = {};
  }
  mapped_ -= count;
  moves_ += count;
  DropTop();
  return true;
}

void PageMap::DropTop() {
  while (!pages_.empty() && !pages_.back().is_mapped) pages_.pop_back();
}

absl::Status PageMap::MapSpare(int64_t begin, int64_t end) {
  absl::Status mapped;
  for (const PageRange& run : Runs(RangeOf(begin, end), /*is_mapped=*/false)) {
    const int64_t count = run.last - run.first;
    if (top() < run.last) pages_.resize(run.last);
    const absl::Span<const uint64_t> pages(&spare_[spare_.size() - count],
                                           count);
    mapped = system_.Map(base_ + run.first * page_, pages);
    if (!mapped.ok()) break;
    for (int64_t i = 0; i < count; ++i) {
      pages_[run.first + i] = {.handle = pages[i], .is_mapped = true};
    }
    spare_.resize(spare_.size() - count);
    mapped_ += count;
  }
  DropTop();
  return mapped;
}

absl::Status PageMap::MapAliases(int64_t first,
                                 absl::Span<const int64_t> pages) {
  const PageRange all = {first, first + std::ssize(pages)};
  for (const PageRange& run : Runs(all, /*is_mapped=*/false)) {
    std::vector<uint64_t> handles;
    for (int64_t i = run.first; i < run.last; ++i) {
      handles.push_back(pages_[pages[i - first]].handle);
    }
    const absl::Status mapped =
        system_.MapAgain(base_ + run.first * page_, handles);
    if (!mapped.ok()) return mapped;
    if (top() < run.last) pages_.resize(run.last);
    for (int64_t i = run.first; i < run.last; ++i) {
      const int64_t page = pages[i - first];
      pages_[i] = {pages_[page].handle, true, page};
      aliases_[page].push_back(i);
    }
  }
  return absl::OkStatus();
}

void PageMap::TakePlace(int64_t alias) {
  const int64_t page = pages_[alias].alias_of;
  const auto is_other = [alias](int64_t i) { return i != alias; };
  auto& aliases = aliases_.at(page);
  while (aliases.size() > 1) {
    if (!UnmapAlias(*std::find_if(aliases.begin(), aliases.end(), is_other))) {
      return;
    }
  }
  if (!UnmapAt(page)) return;
  aliases_.erase(page);
  pages_[alias].alias_of = -1;
}

void PageMap::UnmapAliases(PageRange range) {
  for (int64_t i = range.first; i < std::min(range.last, top()); ++i) {
    if (pages_[i].alias_of >= 0) UnmapAlias(i);
  }
  DropTop();
}

bool PageMap::UnmapAlias(int64_t alias) {
  const int64_t page = pages_[alias].alias_of;
  if (!UnmapAt(alias)) return false;
  const auto aliases = aliases_.find(page);
  std::erase(aliases->second, alias);
  if (aliases->second.empty()) aliases_.erase(aliases);
  return true;
}

// One of the addresses of a page goes. A failure is tried once more: the page
// could not be used again.
bool PageMap::UnmapAt(int64_t index) {
  const auto unmap = [&] {
    return system_.UnmapAlias(base_ + index * page_, 1).ok();
  };
  if (!unmap() && !unmap()) return false;
  pages_[index] = {};
  return true;
}

bool PageMap::UnmapAliasesOf(PageRange pages) {
  for (int64_t i = pages.first; !aliases_.empty() && i < pages.last; ++i) {
    while (aliases_.contains(i)) {
      if (!UnmapAlias(aliases_.at(i).back())) return false;
    }
  }
  return true;
}

void PageMap::ReleaseSpare() {
  for (const uint64_t page : spare_) system_.Release(page);
  spare_.clear();
}

}  // namespace ebbtide
