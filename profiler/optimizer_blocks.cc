#include "profiler/optimizer_blocks.h"

namespace ebbtide {

void OptimizerBlocks::NoteParameter(Bytes bytes) {
  std::lock_guard lock(mutex_);
  parameters_.insert(bytes);
}

void OptimizerBlocks::Add(const Block& block, Bytes bytes) {
  std::lock_guard lock(mutex_);
  blocks_[block.number] = {block.address, bytes, steps_};
}

void OptimizerBlocks::Remove(int64_t number) {
  std::lock_guard lock(mutex_);
  blocks_.erase(number);
}

std::vector<OptimizerBlocks::Block> OptimizerBlocks::BeginStep() {
  std::lock_guard lock(mutex_);
  ++steps_;
  std::vector<Block> found;
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const auto& [number, known] = *it;
    // True once another step has followed the step that it was seen in.
    const bool is_old = known.step > 0 && known.step + 2 <= steps_;
    if (is_old && parameters_.contains(known.bytes)) {
      found.push_back({number, known.address});
    }
    if (is_old) {
      blocks_.erase(it++);
    } else {
      ++it;
    }
  }
  return found;
}

}  // namespace ebbtide
