// Divides ranges of addresses into blocks in constant time: two-level
// segregated fit (Masmano, Ripoll, Crespo, Real: TLSF, ECRTS 2004, sections 3
// and 4). What is known of a block is kept here, not in front of it, because
// the addresses may be a device's.
//
// Free blocks are listed by size class: sixteen to each power of two. A request
// takes the first block of the first class in which every block fits, or, where
// there is none, one of the first few of its own class. Neighbours coalesce.
//
// Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TLSF_H_
#define EBBTIDE_ALLOCATOR_TLSF_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/extents.h"
#include "planner/units.h"

namespace ebbtide {

class Tlsf {
 public:
  // Offsets and sizes are multiples of it. It is what PyTorch rounds to.
  static constexpr Bytes kGrain{512};

  // Free addresses from now on. [offset, offset + size) in whole grains, below
  // 1 TiB, not empty, and apart from all ranges so far, which it is not joined
  // with.
  void AddRange(Extent range);

  // A block of at least `size` bytes (positive); nullopt where no class has
  // one. Amortised O(1).
  std::optional<Extent> Take(Bytes size);

  // Gives back what begins at that offset; false where no block does.
  bool Give(int64_t offset);

  // Of the block that begins there; nullopt where none does.
  std::optional<Bytes> SizeOf(int64_t offset) const;

  Bytes used() const { return Bytes{used_ * Count(kGrain)}; }
  Bytes free() const { return Bytes{free_ * Count(kGrain)}; }
  int64_t holes() const { return holes_; }

  // Blocks tile the ranges, no two free ones touch within one, every free one
  // is in the list of its class and no other, and the counters are right; for
  // tests. O(blocks).
  bool Check() const;

 private:
  static constexpr int kSecondBits = 4;
  static constexpr int kSeconds = 1 << kSecondBits;
  static constexpr int kFirsts = 48;  // powers of two of grains
  static constexpr int kNone = -1;

  // In grains, of which there are less than 2^31. Small, so that more of them
  // are in the caches.
  struct Block {
    int begin = 0;
    int size = 0;
    int below = kNone;  // neighbours in the range, by address
    int above = kNone;
    int previous = kNone;  // in the list of its class, where it is free
    int next = kNone;
    bool is_free = false;
  };
  struct SizeClass {
    int first = 0;
    int second = 0;
  };

  static SizeClass ClassOf(int64_t size);
  // The first class of which every block has `size`.
  static SizeClass ClassFor(int64_t size);
  int NewBlock(const Block& block);
  void List(int index);
  void Unlist(int index);
  int FirstFrom(SizeClass from) const;
  int FewOf(SizeClass own, int64_t size) const;
  void CutOff(int index, int64_t size);
  // Joins `above` to `below`, which touch.
  void Join(int below, int above);
  bool CheckLists() const;

  std::vector<Block> blocks_;
  std::vector<int> unused_;                  // places in blocks_
  std::vector<int> ranges_;                  // lowest block of each
  absl::flat_hash_map<int64_t, int> taken_;  // by where it begins
  uint64_t firsts_ = 0;                      // which have a free block
  std::array<uint32_t, kFirsts> seconds_{};
  std::array<std::array<int, kSeconds>, kFirsts> heads_ = EmptyHeads();
  static constexpr std::array<std::array<int, kSeconds>, kFirsts> EmptyHeads() {
    std::array<std::array<int, kSeconds>, kFirsts> heads{};
    for (auto& row : heads) row.fill(kNone);
    return heads;
  }
  int64_t used_ = 0;  // in grains
  int64_t free_ = 0;
  int64_t holes_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TLSF_H_
