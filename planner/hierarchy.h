// The parts of a graph with their menus, and drafts for the whole graph put
// together from them. Private to the planner.
#ifndef EBBTIDE_PLANNER_HIERARCHY_H_
#define EBBTIDE_PLANNER_HIERARCHY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "planner/graph.h"
#include "planner/part_menu.h"
#include "planner/part_merge.h"
#include "planner/part_profile.h"
#include "planner/partition.h"
#include "planner/retention.h"

namespace ebbtide {

class Hierarchy {
 public:
  // Partitions the graph and makes all menus, of equal parts once. Menus that
  // are not made by the deadline have few options. `little`: as for Uses.
  Hierarchy(const Graph& graph, double little, uint64_t seed,
            int64_t evaluations, absl::Time deadline);

  // The draft whose parts say of themselves that they stay within `limit`
  // together, in least time. None if there is none.
  std::optional<Draft> Within(int64_t limit) const;

  const std::vector<Part>& parts() const { return parts_; }
  size_t menus() const { return menus_.size(); }

 private:
  void MakeMenu(int part, const MergeEffort& effort);
  RowFacts FactsOf(const Part& part, int64_t base_before) const;
  std::vector<RowPart> RowOf(const Part& part, int64_t base_other,
                             int64_t base_before) const;
  // The parts below the whole graph, or that if it is not split.
  std::vector<int> Top() const;
  const PartMenu& MenuOf(int part) const { return menus_[facts_[part].menu]; }

  struct Choice;
  void Choose(int part, int option, std::vector<int>* again,
              std::vector<Choice>* choices) const;
  void WriteRows(const Choice& choice, Draft* draft) const;

  const Graph& graph_;
  const Uses uses_;
  const std::vector<Part> parts_;
  std::vector<PartFacts> facts_;  // by part
  std::vector<PartMenu> menus_;
  absl::flat_hash_map<std::string, int> split_menus_;  // by signature
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_HIERARCHY_H_
