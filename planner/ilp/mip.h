// A mixed-integer program as rows, and HiGHS as its solver. Independent of
// plans. Private to planner/ilp.
#ifndef EBBTIDE_PLANNER_ILP_MIP_H_
#define EBBTIDE_PLANNER_ILP_MIP_H_

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace ebbtide {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kNoColumn = -1;  // stands for a variable that is always 0

struct Term {
  int column = kNoColumn;
  double factor = 0;
};

// Minimize cost * x, lower <= x <= upper, row_lower <= A x <= row_upper.
struct Mip {
  std::vector<double> cost;
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<int> whole;  // 1: x is an integer
  std::vector<double> row_lower;
  std::vector<double> row_upper;
  std::vector<int> row_begin;
  std::vector<int> column;  // columns of the nonzeros, row by row
  std::vector<double> factor;

  int columns() const { return static_cast<int>(cost.size()); }
  int rows() const { return static_cast<int>(row_lower.size()); }

  int AddBinary(double price);
  int AddReal(double least, double most);  // price 0
  // Leaves out terms of kNoColumn; each other column at most once.
  void AddRow(double least, absl::Span<const Term> terms, double most);
};

struct MipOptions {
  absl::Duration time_limit = absl::InfiniteDuration();
  double cutoff = kInfinity;  // only solutions of less cost are of interest
  // The first relaxation by an interior point: faster where rows are many and
  // columns have little to do with one another.
  bool interior = false;
};

struct MipResult {
  enum class Status {
    kOptimal,  // `values` is the solution
    kNone,     // no solution of less cost than the cutoff
    kStopped,  // by the time limit; `values` is the best so far, where one was
               // found
  };
  Status status = Status::kStopped;
  bool found = false;
  std::vector<double> values;
  double bound = -kInfinity;  // no solution costs less
};

// One thread, the same result on every machine unless the time limit ends it.
// Internal where HiGHS refuses the model or fails.
absl::StatusOr<MipResult> SolveMip(const Mip& mip, const MipOptions& options);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_MIP_H_
