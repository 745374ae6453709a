// Large blocks of anonymous memory, mapped one by one and kept for reuse, so
// that the resident set follows the bytes that are live. (With glibc's heap it
// does not: freed tensors stay inside the brk heap.)
//
// A freed block is retained, with its pages, while everything mapped stays
// within the cap; what is too much is cut off the largest retained blocks. A
// request takes the smallest retained block that is at most 1/8 larger than it;
// that slack is cut off once it would push the mapped bytes over the cap. When
// the cap leaves no room for a new mapping, a larger block is split instead, if
// need be one that touching blocks make together; where there is none, pages of
// several blocks are moved behind each other. Steps of many shapes would
// otherwise go on giving pages back and asking for zeroed ones. Live pages
// themselves are never refused because of the cap.
//
// Thread-safe, one mutex. Allocate and Free are O(log blocks) and the system
// calls they need; cutting slack walks the live blocks. Free never allocates.
#ifndef EBBTIDE_ALLOCATOR_ARENA_H_
#define EBBTIDE_ALLOCATOR_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "allocator/mapped_pages.h"
#include "planner/units.h"

namespace ebbtide {

struct ArenaBytes {
  Bytes mapped{};      // live + retained
  Bytes live{};        // including slack
  Bytes slack{};       // live blocks' pages beyond what was asked for
  Bytes retained{};    // free blocks kept for reuse
  Bytes high_water{};  // largest `mapped` so far
};

class Arena {
 public:
  explicit Arena(Bytes cap, const ArenaSystem& system = ArenaSystem::Real());
  ~Arena();  // unmaps retained blocks; live ones stay, they have users
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Page-aligned; contents unspecified. nullptr if the system has no memory
  // even after all retained blocks were given back. `size` must be positive.
  void* Allocate(Bytes size);

  // Returns false, and does nothing, if `block` is not live here.
  bool Free(void* block);

  // Pages asked for, as bytes: all of [block, block + SizeOf) may be read and
  // written. 0 if `block` is not the start of a live block.
  Bytes SizeOf(const void* block) const;

  // Gives retained blocks and slack back until the mapped bytes are within
  // `cap`, or only live pages are left.
  void SetCap(Bytes cap);

  ArenaBytes Stats() const;

  // Around fork(): no other thread is inside the arena between the two.
  void LockForFork() { mutex_.lock(); }
  void UnlockForFork() { mutex_.unlock(); }

 private:
  friend class ArenaCheck;  // for the tests
  struct Block {
    Bytes size;
    char* address;
    bool operator<(const Block& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
  };
  using BlockSet = std::set<Block>;
  // A live block carries the set node it returns to, so Free cannot fail.
  struct Live {
    BlockSet::node_type node;
    Bytes asked{};
  };

  BlockSet::node_type TakeFit(Bytes size);
  BlockSet::node_type TakeAndSplit(Bytes size);
  bool MergeTouching();
  BlockSet::node_type Stitch(Bytes size);
  BlockSet::node_type Map(Bytes size);
  bool Release(Bytes excess);
  bool Unmap(char* address, Bytes size);
  void CutSlack();
  void Shrink(Bytes target);

  mutable std::mutex mutex_;
  MappedPages pages_;
  Bytes cap_;
  ArenaBytes stats_;
  BlockSet retained_;
  absl::flat_hash_map<const void*, Live> live_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_H_
