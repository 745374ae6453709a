// The live blocks and their sums, while the events of a trace are read one
// after the other.
#ifndef EBBTIDE_PROFILER_BLOCK_BOOKS_H_
#define EBBTIDE_PROFILER_BLOCK_BOOKS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "planner/units.h"
#include "profiler/kind.h"
#include "profiler/trace.h"

namespace ebbtide {

inline Bytes Total(const BytesByKind& live) {
  Bytes sum{};
  for (const Bytes each : live) sum += each;
  return sum;
}

class BlockBooks {
 public:
  struct Block {
    int64_t time = 0;  // time of its allocation
    Bytes bytes{};
    Kind kind = Kind::kOther;
    int name = -1;
  };

  // Events of blocks that are not alive change nothing but the rest.
  void Apply(const BlockEvent& event);

  // By kind; the rest is kOther.
  BytesByKind live() const;
  // Bytes of kOther in blocks that an op allocated.
  Bytes workspace() const { return workspace_; }
  Bytes rest() const { return rest_; }
  // By number.
  const absl::flat_hash_map<int64_t, Block>& alive() const { return alive_; }
  // nullptr where it is not alive.
  const Block* Find(int64_t number) const {
    const auto found = alive_.find(number);
    return found == alive_.end() ? nullptr : &found->second;
  }

 private:
  absl::flat_hash_map<int64_t, Block> alive_;
  void Count(const Block& block, bool is_in);

  BytesByKind in_blocks_{};
  Bytes workspace_{};
  Bytes rest_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_BLOCK_BOOKS_H_
