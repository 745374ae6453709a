// `FreeExtents` are the addresses of an arena at which no block lies: mapped
// ones, with the streams whose queued work may still use them, and others.
// Neighbours that are alike are one extent.
//
// Offsets and sizes in bytes, in whole kArenaGrain. Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_ARENA_FREE_EXTENTS_H_
#define EBBTIDE_ALLOCATOR_ARENA_FREE_EXTENTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "allocator/arena/page_system.h"

namespace ebbtide {

// Work of a stream that may still use an extent: up to `end`, or, where that
// is null, all that is queued on it.
struct StreamUse {
  static constexpr int kOutside = -1;  // a stream without a number; has an end
  int stream = 0;
  StreamMark end;
};
// The first is that of the stream whose block lay there.
using StreamUses = absl::InlinedVector<StreamUse, 1>;

// Work that is queued on any stream now.
StreamUses UsesSoFar(StreamOrder* order);

struct FreeExtent {
  int64_t end = 0;
  bool is_mapped = false;
  StreamUses uses;  // uses of mapped ones

  // Work of the stream may use it with no further order.
  bool IsFor(int stream) const {
    return !is_mapped || uses.empty() ||
           (uses.size() == 1 && uses[0].stream == stream);
  }
};

class FreeExtents {
 public:
  // Where an extent begins. It changes in place while the order of extents
  // stays as it is.
  struct Begin {
    Begin(int64_t begin) : at(begin) {}      // NOLINT: it stands for the number
    operator int64_t() const { return at; }  // NOLINT
    mutable int64_t at;
  };
  using Map = absl::btree_map<Begin, FreeExtent>;

  // [begin, end) is not empty and apart from all extents.
  void Add(int64_t begin, FreeExtent extent);
  // Takes [begin, end), which is within extents, out of them. Returns the uses
  // of what is mapped there.
  StreamUses Take(int64_t begin, int64_t end);
  // Takes [begin, begin + size), which is the front of an extent that work of
  // one stream uses.
  void TakeFront(int64_t begin, int64_t size);

  // The lowest address at which a mapped extent for the stream begins that has
  // `size` bytes, but for some that are hardly larger: blocks that stay long
  // then lie together, and pages behind them become free. O(log extents).
  std::optional<int64_t> LowestFit(int64_t size, int stream) const;

  // Forgets uses that are over. False where there are none.
  bool Settle(StreamOrder* order);

  const Map& all() const { return extents_; }

 private:
  friend class ArenaCheck;  // for the tests
  // Sizes are of one class from a quarter of a power of two to the next.
  static constexpr int kClasses = 4 * 48;
  // Extents of one class, by where they begin, with their sizes: a few.
  using SizeClass = std::vector<std::pair<int64_t, int64_t>>;
  struct Index {
    std::array<SizeClass, kClasses> classes;
    std::array<uint64_t, kClasses / 64> has = {};  // classes that are not empty
  };

  static int ClassOf(int64_t size);

  static bool IsSimple(const FreeExtent& extent) {
    return extent.is_mapped && extent.uses.size() == 1 &&
           extent.uses[0].end == nullptr;
  }
  static bool AreAlike(const FreeExtent& a, const FreeExtent& b);
  // It stays where it is among the others.
  static void SetBegin(Map::iterator extent, int64_t begin) {
    extent->first.at = begin;
  }
  void List(int64_t begin, const FreeExtent& extent);
  void Unlist(int64_t begin, const FreeExtent& extent);

  Map extents_;
  std::vector<std::unique_ptr<Index>> index_;  // by stream, simple ones
  int64_t marked_ = 0;  // extents that are mapped and not simple
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_FREE_EXTENTS_H_
