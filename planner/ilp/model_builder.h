// Builds the program of planner/ilp/model.h: its variables (model.cc) and what
// they are bound by (model_rows.cc). Private to planner/ilp.
#ifndef EBBTIDE_PLANNER_ILP_MODEL_BUILDER_H_
#define EBBTIDE_PLANNER_ILP_MODEL_BUILDER_H_

#include <cstdint>
#include <vector>

#include "planner/graph.h"
#include "planner/ilp/model.h"

namespace ebbtide {

class ModelBuilder {
 public:
  // `graph` must outlive it.
  ModelBuilder(const Graph& graph, int64_t budget, int passes);

  Model Build();

 private:
  // v leaves in a segment after some op.
  struct Leave {
    int v = 0;
    int column = kNoColumn;
  };

  int StageOf(int g) const { return g / passes_; }
  int FirstOf(int t) const { return t * passes_; }
  bool EndsStage(int g) const { return (g + 1) % passes_ == 0; }
  bool Held(int v, int t) const { return graph_.held[v] >= t; }
  double Weight(int v) const { return graph_.bytes[v] / bytes_unit_; }
  int RunOf(int v, int g) const { return model_.run[g][graph_.op[v]]; }

  void SetUnits();
  double Room(int t, int64_t bytes);
  double RoomBeside(int64_t bytes);
  void FindLastUses();
  void AddStart();
  bool CanBeRead(int v, int g) const;
  void AddRuns(int g);
  void AddImplied(int a, int b, int c);
  void AddExclusive(int a, int b);
  void AddMade(int g);
  void AddNextStays(int g);

  void AddFlow(int g);
  void AddLeaves(int v, int g, const std::vector<int>& readers, int next);
  void AddMemory(int g);
  std::vector<Term> SumUp(std::vector<Term> terms, double most);
  void AddForward();
  void AddStageEnds();
  void AddLater();
  int AddLaterOf(int i, int t, const std::vector<int>& later);

  const Graph& graph_;
  const int64_t budget_;
  const int passes_;
  const int segments_;
  double bytes_unit_ = 1;
  std::vector<int> last_use_;   // of values
  std::vector<int> last_need_;  // of values
  std::vector<std::vector<int>> made_;
  std::vector<std::vector<Leave>> leaves_;  // of ops, in one segment
  Model model_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_MODEL_BUILDER_H_
