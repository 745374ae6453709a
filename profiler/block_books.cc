#include "profiler/block_books.h"

namespace ebbtide {

void BlockBooks::Count(const Block& block, bool is_in) {
  const Bytes change = is_in ? block.bytes : Bytes{0} - block.bytes;
  in_blocks_[static_cast<int>(block.kind)] += change;
  if (block.kind == Kind::kOther && block.name >= 0) workspace_ += change;
}

void BlockBooks::Apply(const BlockEvent& event) {
  using What = BlockEvent::What;
  rest_ = event.rest;
  if (event.what == What::kForget) {
    alive_.clear();
    in_blocks_ = {};
    workspace_ = {};
    return;
  }
  if (event.what == What::kAllocate) {
    const Block block = {.time = event.time,
                         .bytes = event.bytes,
                         .kind = event.kind,
                         .name = event.name};
    // Only an invalid file allocates it twice.
    if (const Block* known = Find(event.block)) Count(*known, /*is_in=*/false);
    alive_[event.block] = block;
    return Count(block, /*is_in=*/true);
  }
  const auto found = alive_.find(event.block);
  if (found == alive_.end()) return;
  Count(found->second, /*is_in=*/false);
  if (event.what == What::kFree) {
    alive_.erase(found);
  } else {
    found->second.kind = event.kind;
    Count(found->second, /*is_in=*/true);
  }
}

BytesByKind BlockBooks::live() const {
  BytesByKind live = in_blocks_;
  live[static_cast<int>(Kind::kOther)] += rest_;
  return live;
}

}  // namespace ebbtide
