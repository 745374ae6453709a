// The tree of canonical placements below one height, searched in depth.
// planner/place_search.h has its foundation. Private to the planner.
#ifndef EBBTIDE_PLANNER_PLACE_TREE_H_
#define EBBTIDE_PLANNER_PLACE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "planner/place_problem.h"

namespace ebbtide {

// Order among buffers that can lie equally low: the greatest by these, one
// after the other. Width is length in time, and crowd the most bytes that are
// there at once and not yet placed.
enum class TreeOrder {
  kWidthAreaCrowd,
  kCrowdAreaWidth,
  kCrowdWidthArea,
};
inline constexpr TreeOrder kTreeOrders[] = {TreeOrder::kWidthAreaCrowd,
                                            TreeOrder::kCrowdAreaWidth,
                                            TreeOrder::kCrowdWidthArea};

class PlaceTree {
 public:
  enum class Answer { kFound, kNone, kUnknown };

  // Sizes, alignments and offsets are multiples of `unit`; all numbers from
  // here on are in units. O(n^2) pairs of buffers are compared.
  PlaceTree(const PlaceProblem& problem, Bytes unit);

  // Searches a placement within `capacity`; kUnknown once `nodes` are visited.
  // Among equal offsets the buffer that `order` names comes first.
  Answer Search(int64_t capacity, TreeOrder order, int64_t nodes);

  // After kFound, by buffer, in units.
  absl::Span<const int64_t> offsets() const { return offset_; }
  int64_t Height() const;
  // Visited by the last search; visits that look at much count for more.
  int64_t nodes() const { return nodes_; }

 private:
  struct Block {
    int64_t size = 0;
    int64_t alignment = 1;
    int64_t fixed = -1;         // offset; -1: free
    std::pair<int, int> hull;   // ranks of instants; one stream
    std::vector<int> meets;     // other buffers
    std::vector<int> sections;  // maximal instants that it is there at
    double width = 0;
  };
  // Behind: the last offset that was given and by whom. No buffer comes before.
  struct Last {
    int64_t offset = 0;
    int rank = -1;
  };

  void MakeSections(const PlaceProblem& problem, int stream);
  // Gives ranks to those of a group, by what is not yet placed.
  void Rank(absl::Span<const int> group);
  // The entries of the trail from `mark` on have not been looked at in
  // sections; if there is no mark, none has.
  Answer Solve(absl::Span<const int> group, Last last,
               std::optional<size_t> mark);
  Answer SolveAlone(int id);
  Answer SolveApart(absl::Span<const int> group, Last last,
                    std::optional<size_t> mark, int splits);
  Answer Branch(absl::Span<const int> group, Last last, int64_t lowest);
  bool IsBehind(int id, Last last) const;
  int64_t OffsetOf(int id) const;
  // The lowest end of a buffer of the group, or -1 if not all can be placed.
  int64_t LowestEnd(absl::Span<const int> group, Last last);
  // True if the buffers present when LowestEnd looked fit above the placed
  // ones.
  bool SectionsFit(absl::Span<const int> group, std::optional<size_t> mark);
  bool SectionFits(int section);
  // All that an answer depends on, in 128 bits that are taken for equal only
  // if it is.
  std::pair<uint64_t, uint64_t> StateOf(absl::Span<const int> group,
                                        Last last) const;
  // The least offset of a buffer that is behind: an unplaced buffer has to come
  // below it. The capacity if there is none.
  int64_t PushedTo(int id) const;
  int Splits(absl::Span<const int> group) const;
  void Put(int id, int64_t offset);
  void TakeBack(size_t mark);

  std::vector<Block> blocks_;
  std::vector<int> by_begin_;  // all, by hull
  std::vector<int> rank_;      // by buffer, within its group
  TreeOrder order_ = TreeOrder::kWidthAreaCrowd;
  int64_t capacity_ = 0;
  int64_t nodes_ = 0;
  int64_t limit_ = 0;
  std::vector<int64_t> offset_;  // by buffer
  std::vector<int64_t> least_;   // by buffer: above what is placed
  std::vector<int64_t> from_;    // by buffer, of a group: no lower offset
  std::vector<char> placed_;     // by buffer
  // Former values of least_, or kPut, by buffer: groups that were solved before
  // one that was not are taken back with those before them.
  std::vector<std::pair<int, int64_t>> trail_;
  std::vector<std::vector<int>> sections_;  // buffers there
  std::vector<int64_t> sum_;                // by section, within Rank
  // State of the last call of LowestEnd: its number, its group and the buffers
  // behind.
  int64_t group_ = 0;
  std::vector<int64_t> in_group_;  // by buffer: the last such number
  std::vector<int64_t> looked_;    // by section: the same, in SectionsFit
  std::vector<int> behind_;
  int64_t instants_ = 0;  // looked at and not yet counted as a node
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> known_;  // have no answer
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_TREE_H_
