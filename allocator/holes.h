// `Holes` are free ranges of addresses. Those that touch are one.
//
// Not thread-safe. O(log holes), but for Lowest.
#ifndef EBBTIDE_ALLOCATOR_HOLES_H_
#define EBBTIDE_ALLOCATOR_HOLES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ebbtide {

struct Hole {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t end() const { return begin + size; }
  bool operator==(const Hole&) const = default;
};

class Holes {
 public:
  // From now on it is free; nothing of it was. Never throws: where there is no
  // memory to note it, it is lost to later requests.
  void Add(Hole hole);
  // Takes the first `size` bytes of one of these holes. Never throws.
  void TakeFront(const Hole& hole, int64_t size);

  // The smallest of at least `size` bytes, the lowest of those.
  std::optional<Hole> Best(int64_t size) const;
  // The lowest of at least `size` bytes. O(holes).
  std::optional<Hole> Lowest(int64_t size) const;
  // The one that ends there, or an empty one.
  Hole EndingAt(int64_t end) const;
  int64_t Largest() const;

  // Sizes by where they begin, ascending.
  const std::map<int64_t, int64_t>& all() const { return sizes_; }

 private:
  using Sizes = std::map<int64_t, int64_t>;
  Sizes::iterator Erase(Sizes::iterator hole);

  Sizes sizes_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, begin
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_HOLES_H_
