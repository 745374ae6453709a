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
  ModelBuilder(const Graph& graph, int64_t budget, int passes, bool offload);

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
  // The column of a segment; before the first one no value is restored.
  int Asked(int v, int g) const {
    return g < 0 ? kNoColumn : model_.asked[g][v];
  }
  int Back(int v, int g) const { return g < 0 ? kNoColumn : model_.back[g][v]; }
  int Gone(int v, int instant) const { return model_.gone[instant][v]; }
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
  void AddReadable(int a, int v, int g, int makes);
  void AddExclusive(int a, int b);
  void AddMade(int g);
  void AddNextStays(int g);

  void AddFlow(int g);
  void AddLeaves(int v, int g, const std::vector<int>& readers, int next);
  void AddLeavesOfMoved(int v, int g, std::vector<Term> left, int next);
  void AddMemory(int g);
  void AddMoving(int t, int g, std::vector<Term>* live) const;
  void AddMerged(double least, std::vector<Term> terms, double most);
  static std::vector<Term> Merge(std::vector<Term> terms);
  std::vector<Term> SumUp(std::vector<Term> terms, double most);
  void AddForward();
  void AddStageEnds();
  void AddLater();
  int AddLaterOf(int i, int t, const std::vector<int>& later);

  // model_copies.cc
  void AddMoves();
  bool MayBeReadBy(int v, int g) const;
  void AddMove(int v);
  void AddGone(int v);
  void AddReturn(int v);
  void AddWays();
  void AddTimes();
  void AddStates(int v);
  void AddRoundTrip(int v);
  void AddProgress(int done, int next, int least);
  void AddCapacity(std::vector<Term> copies, double rate, double time, int k);
  void AddWayOut();
  void AddWayBack();
  void AddAway(int v, int g, double factor, std::vector<Term>* terms) const;
  void AddBack(int v, int g, double factor, std::vector<Term>* terms) const;

  const Graph& graph_;
  const int64_t budget_;
  const int passes_;
  const int segments_;
  const bool moves_;
  double bytes_unit_ = 1;
  std::vector<int> last_use_;   // by value
  std::vector<int> last_need_;  // by value
  std::vector<std::vector<int>> made_;
  std::vector<int> moved_;              // values that may be
  std::vector<int> due_;                // by value: stage that needs it there
  std::vector<std::vector<int>> drop_;  // by segment, by value
  std::vector<std::vector<Leave>> leaves_;  // by op, in one segment
  Model model_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_MODEL_BUILDER_H_
