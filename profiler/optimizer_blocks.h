// Guesses which blocks are the optimizer's state: what was allocated outside
// forward and backward, is as large as a parameter and outlives a whole step.
// It is a guess; the kind is for display, plans do not use it.
#ifndef EBBTIDE_PROFILER_OPTIMIZER_BLOCKS_H_
#define EBBTIDE_PROFILER_OPTIMIZER_BLOCKS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "planner/units.h"

namespace ebbtide {

// Thread-safe.
class OptimizerBlocks {
 public:
  struct Block {
    int64_t number = 0;
    const void* address = nullptr;
  };

  void NoteParameter(Bytes bytes);
  // Allocated outside forward and backward.
  void Add(const Block& block, Bytes bytes);
  void Remove(int64_t number);
  // Those that it is known of now; each once.
  std::vector<Block> BeginStep();

 private:
  struct Known {
    const void* address;
    Bytes bytes;
    int64_t step;  // that had begun last when it was allocated
  };

  std::mutex mutex_;
  int64_t steps_ = 0;
  absl::flat_hash_map<int64_t, Known> blocks_;
  absl::flat_hash_set<Bytes> parameters_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_OPTIMIZER_BLOCKS_H_
