// The tree of canonical placements below one height, searched in depth. What it
// rests on is said in planner/place_search.h. Private to the planner.
#ifndef EBBTIDE_PLANNER_PLACE_TREE_H_
#define EBBTIDE_PLANNER_PLACE_TREE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/place_problem.h"

namespace ebbtide {

class PlaceTree {
 public:
  enum class Answer { kFound, kNone, kUnknown };

  // Sizes, alignments and offsets are multiples of `unit`, and so is what is
  // said of them from here on. O(n^2) pairs of buffers are compared.
  PlaceTree(const PlaceProblem& problem, Bytes unit);

  // Whether there is a placement within `capacity`; kUnknown once `nodes` are
  // visited. Of equal offsets the buffer with the lower rank comes first.
  Answer Search(int64_t capacity, absl::Span<const int> rank, int64_t nodes);

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
  };
  // Behind: the last offset that was given and by whom. Nobody comes before.
  struct Last {
    int64_t offset = 0;
    int rank = -1;
  };

  void MakeSections(const PlaceProblem& problem, int stream);
  Answer Solve(absl::Span<const int> group, Last last);
  Answer SolveAlone(int id);
  Answer SolveApart(absl::Span<const int> group, Last last, int splits);
  Answer Branch(absl::Span<const int> group, Last last, int64_t lowest);
  bool IsBehind(int id, Last last) const;
  int64_t OffsetOf(int id) const;
  // The lowest end of a buffer of the group, or -1 if not all can be placed.
  int64_t LowestEnd(absl::Span<const int> group, Last last);
  bool SectionsFit(absl::Span<const int> group);
  // The least offset of a buffer that is behind: somebody who is not placed yet
  // has to come below it. At the capacity if there is nobody.
  int64_t PushedTo(int id) const;
  int Splits(absl::Span<const int> group) const;
  void Put(int id, int64_t offset);
  void TakeBack(size_t mark);

  std::vector<Block> blocks_;
  std::vector<int> by_begin_;  // all, by hull
  std::vector<int> rank_;
  int64_t capacity_ = 0;
  int64_t nodes_ = 0;
  int64_t limit_ = 0;
  std::vector<int64_t> offset_;  // by buffer
  std::vector<int64_t> least_;   // by buffer: above what is placed
  std::vector<int64_t> from_;    // by buffer, of a group: no lower offset
  std::vector<char> placed_;     // by buffer
  // What least_ was, or kPut, by buffer: groups that were solved before one
  // that was not are taken back with what came before them.
  std::vector<std::pair<int, int64_t>> trail_;
  std::vector<int64_t> sum_;  // by section, within SectionsFit
  std::vector<int64_t> low_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_TREE_H_
