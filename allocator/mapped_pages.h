// Anonymous pages of the system, and where they may be moved from.
//
// Pages that are resident can be given another address, which spares the faults
// for zeroed ones. The system moves pages of one mapping at a time (mremap(2)),
// so the places where pages of several moves meet, seams, are kept. Every piece
// between two is a mapping of the process, which may have 65,530 of them
// (/proc/sys/vm/max_map_count): most are left to others.
//
// Not thread-safe: its owner locks.
#ifndef EBBTIDE_ALLOCATOR_MAPPED_PAGES_H_
#define EBBTIDE_ALLOCATOR_MAPPED_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <set>

#include "planner/units.h"

namespace ebbtide {

inline constexpr int64_t kPageSize = 4096;

constexpr Bytes RoundUpToPage(Bytes size) {
  return Bytes{(Count(size) + kPageSize - 1) & ~(kPageSize - 1)};
}

// The seam to the system; tests make it fail.
struct ArenaSystem {
  void* (*map)(size_t size);  // nullptr on failure
  bool (*unmap)(void* address, size_t size);
  // Pages of one mapping take the place of mapped ones. On failure both are
  // mapped still; what `to` held is unspecified.
  bool (*move)(void* from, size_t size, void* to);
  static const ArenaSystem& Real();
};

class MappedPages {
 public:
  static constexpr size_t kMostSeams = 1 << 14;
  // A call costs as much as faults for some six pages; were smaller pieces
  // moved, too, pages would end up in ever more and smaller ones.
  static constexpr Bytes kSmallestMoved{256 << 10};

  explicit MappedPages(const ArenaSystem& system) : system_(system) {}

  // Zeroed pages, or nullptr.
  char* Map(Bytes size);
  // False, with nothing changed, if the system refuses: it may not split a
  // mapping beyond its limit.
  bool Unmap(char* address, Bytes size);
  // Replaces mapped pages at `to` by those at `from`, or, where these lie in
  // small pieces, unmaps these. Returns for how many bytes of them, in their
  // order: fewer than `size` where the system refuses or there are too many
  // seams. The others, and what they were to replace, stay where they are, the
  // latter with bytes unspecified.
  Bytes Move(char* from, Bytes size, char* to);

  bool MayMove() const { return seams_.size() < kMostSeams; }

 private:
  bool MovePiece(char* from, int64_t size, char* to);
  // False where there is no memory for them.
  bool NoteSeams(char* begin, char* end);
  void ForgetSeams(char* address, Bytes size);

  const ArenaSystem system_;
  // Inside of what is mapped. One too many costs a call, one too few a refusal.
  std::set<char*> seams_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_MAPPED_PAGES_H_
