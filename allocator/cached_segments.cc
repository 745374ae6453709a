#include "allocator/cached_segments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool Serves(const CachedSegment& segment, const CacheRequest& request) {
  if (segment.is_arena) return request.may_use_arena;
  return !segment.is_private && segment.is_small == request.is_small &&
         segment.stream == request.stream && segment.size >= request.size;
}

bool IsEmpty(const CachedSegment& segment) {
  return std::all_of(segment.blocks.begin(), segment.blocks.end(),
                     [](const auto& block) { return block.second.is_leaving; });
}

// Of those that serve the request.
template <typename Visit>
void ForEachServing(const CachedMemory& memory, const CacheRequest& request,
                    Visit visit) {
  for (const auto* segments : {&memory.segments, &memory.arenas}) {
    for (const auto& [begin, segment] : *segments) {
      if (Serves(segment, request)) visit(begin, segment);
    }
  }
}

bool HasHole(const char* begin, const CachedSegment& segment, Bytes size) {
  const char* free = begin;
  for (const auto& [block, what] : segment.blocks) {
    if (what.is_leaving) continue;
    if (block - free >= Count(size)) return true;
    free = block + Count(what.size);
  }
  return begin + Count(segment.size) - free >= Count(size);
}

// What is missing for a new segment when all empty ones are given back; not
// positive where there is room.
Bytes MissingForSegment(const CachedSegments& segments,
                        const CacheRequest& request) {
  Bytes missing = request.segment - request.unreserved;
  for (const auto& [begin, segment] : segments) {
    if (!segment.is_private && IsEmpty(segment)) missing -= segment.size;
  }
  return missing;
}

struct Choice {
  double price = kNever;
  std::vector<int> indices;
};

// A stretch of a segment from the end of one block to the end of the next.
struct Piece {
  Bytes size{};
  double price = 0;  // kNever: the block stays
  int index = -1;    // -1: nothing has to go
};

class Clearing {
 public:
  Clearing(const CachedMemory& memory, const CacheRequest& request,
           absl::Span<const Clearable> clearables)
      : memory_(memory), request_(request), clearables_(clearables) {
    for (int i = 0; i < static_cast<int>(clearables.size()); ++i) {
      index_of_.emplace(clearables[i].block, i);
    }
  }

  Choice ForHole() const {
    Choice best;
    ForEachServing(memory_, request_,
                   [&](const char* begin, const CachedSegment& segment) {
                     ForHole(PiecesOf(begin, segment), &best);
                   });
    return best;
  }

  Choice ForSegments() const {
    const Bytes missing = MissingForSegment(memory_.segments, request_);
    std::vector<Group> groups = Groups();
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      return a.price * Number(b.size) < b.price * Number(a.size);
    });
    Bytes cleared{};
    std::vector<const Group*> taken;
    for (const Group& group : groups) {
      if (cleared >= missing) break;
      cleared += group.size;
      taken.push_back(&group);
    }
    if (cleared < missing) return {};
    // What the last ones have made superfluous, the dearest first.
    for (auto group = taken.rbegin(); group != taken.rend(); ++group) {
      if (cleared - (*group)->size < missing) continue;
      cleared -= (*group)->size;
      *group = nullptr;
    }
    Choice several = Join(taken);
    for (const Group& group : groups) {
      if (group.size >= missing && group.price < several.price) {
        several = Join({&group});
      }
    }
    return several;
  }

 private:
  // What has to go of a segment for it to be empty.
  struct Group {
    Bytes size{};
    double price = 0;
    std::vector<int> indices;
  };

  static double Number(Bytes size) { return static_cast<double>(Count(size)); }

  Piece PieceOf(const char* block, const CachedBlock& what) const {
    if (what.is_leaving) return {.size = what.size};
    const auto found = what.is_arena ? index_of_.end() : index_of_.find(block);
    if (found == index_of_.end()) return {.size = what.size, .price = kNever};
    return {.size = what.size,
            .price = clearables_[found->second].price,
            .index = found->second};
  }

  std::vector<Piece> PiecesOf(const char* begin,
                              const CachedSegment& segment) const {
    std::vector<Piece> pieces;
    const char* end = begin;
    const auto add_hole = [&](const char* until) {
      if (until > end) pieces.push_back({.size = Bytes{until - end}});
    };
    for (const auto& [block, what] : segment.blocks) {
      add_hole(block);
      pieces.push_back(PieceOf(block, what));
      end = block + Count(what.size);
    }
    add_hole(begin + Count(segment.size));
    return pieces;
  }

  // Prices are not negative: from each piece the shortest stretch that is long
  // enough is the cheapest.
  void ForHole(const std::vector<Piece>& pieces, Choice* best) const {
    Bytes size{};
    size_t first = 0;
    for (size_t last = 0; last < pieces.size(); ++last) {
      if (pieces[last].price == kNever) {
        first = last + 1;
        size = Bytes{};
        continue;
      }
      size += pieces[last].size;
      while (size - pieces[first].size >= request_.size) {
        size -= pieces[first++].size;
      }
      if (size >= request_.size) Offer(pieces, first, last, best);
    }
  }

  static void Offer(const std::vector<Piece>& pieces, size_t first, size_t last,
                    Choice* best) {
    double price = 0;
    for (size_t i = first; i <= last; ++i) price += pieces[i].price;
    if (price >= best->price) return;
    *best = {.price = price};
    for (size_t i = first; i <= last; ++i) {
      if (pieces[i].index >= 0) best->indices.push_back(pieces[i].index);
    }
  }

  std::vector<Group> Groups() const {
    std::vector<Group> groups;
    for (const auto& [begin, segment] : memory_.segments) {
      if (segment.is_private || IsEmpty(segment)) continue;
      Group group = {.size = segment.size};
      for (const auto& [block, what] : segment.blocks) {
        const Piece piece = PieceOf(block, what);
        group.price += piece.price;
        if (piece.index >= 0) group.indices.push_back(piece.index);
      }
      if (group.price < kNever) groups.push_back(std::move(group));
    }
    return groups;
  }

  static Choice Join(const std::vector<const Group*>& groups) {
    Choice choice = {.price = 0};
    for (const Group* group : groups) {
      if (group == nullptr) continue;
      choice.price += group->price;
      choice.indices.insert(choice.indices.end(), group->indices.begin(),
                            group->indices.end());
    }
    return choice;
  }

  const CachedMemory& memory_;
  const CacheRequest& request_;
  const absl::Span<const Clearable> clearables_;
  absl::flat_hash_map<const void*, int> index_of_;
};

}  // namespace

bool FindsRoom(const CachedMemory& memory, const CacheRequest& request) {
  if (request.unreserved >= request.segment) return true;
  bool has_hole = false;
  ForEachServing(memory, request,
                 [&](const char* begin, const CachedSegment& segment) {
                   has_hole |= HasHole(begin, segment, request.size);
                 });
  return has_hole || MissingForSegment(memory.segments, request) <= Bytes{0};
}

std::vector<int> CheapestToClear(const CachedMemory& memory,
                                 const CacheRequest& request,
                                 absl::Span<const Clearable> clearables) {
  if (FindsRoom(memory, request)) return {};
  const Clearing clearing(memory, request, clearables);
  Choice hole = clearing.ForHole();
  // A segment costs calls to the device that wait for it.
  Choice other = clearing.ForSegments();
  Choice& best = hole.price <= other.price ? hole : other;
  std::sort(best.indices.begin(), best.indices.end(), [&](int a, int b) {
    return clearables[a].block < clearables[b].block;
  });
  return std::move(best.indices);
}

}  // namespace ebbtide
