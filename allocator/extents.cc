#include "allocator/extents.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace ebbtide {

std::optional<Extent> Extents::Take(Bytes size) {
  std::lock_guard lock(mutex_);
  try {
    std::optional<Extent> extent = TakeHole(size);
    if (!extent && size <= limit_ - Bytes{end_}) {
      extent = Extent{end_, size};
      end_ += Count(size);
    }
    if (extent) used_ += size;
    return extent;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

std::optional<Extent> Extents::TakeHole(Bytes size) {
  const auto fit = by_size_.lower_bound({size, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [room, offset] = *fit;
  if (room > size) {
    const int64_t rest = offset + Count(size);
    holes_.emplace(rest, room - size);
    by_size_.emplace(room - size, rest);
  }
  holes_.erase(offset);
  by_size_.erase(fit);
  return Extent{offset, size};
}

void Extents::Give(Extent extent) {
  std::lock_guard lock(mutex_);
  used_ -= extent.size;
  const auto next = holes_.lower_bound(extent.offset);
  if (next != holes_.end() &&
      next->first == extent.offset + Count(extent.size)) {
    extent.size += next->second;
    by_size_.erase({next->second, next->first});
    holes_.erase(next);
  }
  const auto after = holes_.lower_bound(extent.offset);
  if (after != holes_.begin()) {
    const auto previous = std::prev(after);
    const Extent hole = {previous->first, previous->second};
    if (hole.offset + Count(hole.size) == extent.offset) {
      extent = {hole.offset, hole.size + extent.size};
      by_size_.erase({hole.size, hole.offset});
      holes_.erase(previous);
    }
  }
  if (extent.offset + Count(extent.size) == end_) {
    end_ = extent.offset;
  } else {
    AddHole(extent);
  }
}

void Extents::AddHole(Extent hole) {
  try {
    holes_.emplace(hole.offset, hole.size);
    by_size_.emplace(hole.size, hole.offset);
  } catch (const std::bad_alloc&) {
    // The room is lost to later extents; nothing else depends on it.
    holes_.erase(hole.offset);
  }
}

Bytes Extents::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

Bytes Extents::Largest() const {
  std::lock_guard lock(mutex_);
  const Bytes at_end = limit_ - Bytes{end_};
  return by_size_.empty() ? at_end : std::max(at_end, by_size_.rbegin()->first);
}

bool Extents::Check() const {
  std::lock_guard lock(mutex_);
  int64_t free = 0;
  int64_t last_end = -1;
  for (const auto& [offset, size] : holes_) {
    if (offset <= last_end || size <= Bytes{0}) return false;
    if (!by_size_.contains({size, offset})) return false;
    last_end = offset + Count(size);
    free += Count(size);
  }
  return last_end < end_ && holes_.size() == by_size_.size() &&
         free + Count(used_) == end_ && end_ <= Count(limit_);
}

}  // namespace ebbtide
