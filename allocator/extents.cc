#include "allocator/extents.h"

namespace ebbtide {

std::optional<Extent> Extents::Take(Bytes size) {
  std::lock_guard lock(mutex_);
  const std::optional<Hole> hole = holes_.Best(Count(size));
  if (!hole) return std::nullopt;
  holes_.TakeFront(*hole, Count(size));
  used_ += size;
  return Extent{hole->begin, size};
}

void Extents::Give(Extent extent) {
  std::lock_guard lock(mutex_);
  used_ -= extent.size;
  holes_.Add({.begin = extent.offset, .size = Count(extent.size)});
}

Bytes Extents::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

Bytes Extents::Largest() const {
  std::lock_guard lock(mutex_);
  return Bytes{holes_.Largest()};
}

}  // namespace ebbtide
