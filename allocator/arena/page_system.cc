#include "allocator/arena/page_system.h"

namespace ebbtide {

absl::Status RunBehindAll(StreamOrder* order, int stream) {
  for (int other = 0; other < order->streams(); ++other) {
    if (other == stream) continue;
    const auto mark = order->Mark(other);
    if (!mark.ok()) return mark.status();
    const absl::Status ordered = order->RunBehind(*mark, stream);
    if (!ordered.ok()) return ordered;
  }
  return absl::OkStatus();
}

}  // namespace ebbtide
