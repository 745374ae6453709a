#include "planner/ilp/mip.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "interfaces/highs_c_api.h"

namespace ebbtide {
namespace {

using Solver = std::unique_ptr<void, void (*)(void*)>;

absl::Status SetOptions(void* highs, const MipOptions& options) {
  // An optimum is proven to the last digit that a double of these sizes has.
  constexpr double kTolerance = 1e-9;
  bool ok = true;
  const auto expect = [&ok](HighsInt status) {
    ok = ok && status == kHighsStatusOk;
  };
  expect(Highs_setBoolOptionValue(highs, "output_flag", 0));
  expect(Highs_setIntOptionValue(highs, "threads", 1));
  expect(Highs_setIntOptionValue(highs, "random_seed", 1));
  // Its other interior point solver looks for a BLAS at run time.
  expect(Highs_setStringOptionValue(highs, "mip_ipm_solver", "ipx"));
  expect(Highs_setDoubleOptionValue(highs, "mip_rel_gap", 0));
  expect(Highs_setDoubleOptionValue(highs, "mip_feasibility_tolerance",
                                    kTolerance));
  expect(Highs_setDoubleOptionValue(highs, "primal_feasibility_tolerance",
                                    kTolerance));
  if (options.interior) {
    expect(Highs_setStringOptionValue(highs, "mip_lp_solver", "ipx"));
    expect(Highs_setStringOptionValue(highs, "solver", "ipx"));
  }
  if (options.time_limit != absl::InfiniteDuration()) {
    const double seconds = absl::ToDoubleSeconds(options.time_limit);
    expect(
        Highs_setDoubleOptionValue(highs, "time_limit", std::max(0., seconds)));
  }
  if (options.cutoff < kInfinity) {
    expect(
        Highs_setDoubleOptionValue(highs, "objective_bound", options.cutoff));
  }
  if (ok) return absl::OkStatus();
  return absl::InternalError("HiGHS: an option was refused");
}

absl::Status Pass(void* highs, const Mip& mip) {
  const HighsInt status = Highs_passMip(
      highs, mip.columns(), mip.rows(), mip.column.size(),
      kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, 0, mip.cost.data(),
      mip.lower.data(), mip.upper.data(), mip.row_lower.data(),
      mip.row_upper.data(), mip.row_begin.data(), mip.column.data(),
      mip.factor.data(), mip.whole.data());
  if (status == kHighsStatusOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("HiGHS: a model of ", mip.columns(),
                                          " columns and ", mip.rows(),
                                          " rows was refused"));
}

absl::StatusOr<MipResult> Read(const void* highs, const Mip& mip,
                               double cutoff) {
  MipResult result;
  const HighsInt status = Highs_getModelStatus(highs);
  switch (status) {
    case kHighsModelStatusOptimal:
      result.status = MipResult::Status::kOptimal;
      break;
    case kHighsModelStatusInfeasible:
    case kHighsModelStatusObjectiveBound:
      result.status = MipResult::Status::kNone;
      return result;
    case kHighsModelStatusTimeLimit:
      break;
    default:
      return absl::InternalError(
          absl::StrCat("HiGHS: ended with model status ", status));
  }
  HighsInt found = kHighsSolutionStatusNone;
  Highs_getIntInfoValue(highs, "primal_solution_status", &found);
  Highs_getDoubleInfoValue(highs, "mip_dual_bound", &result.bound);
  result.found = found == kHighsSolutionStatusFeasible;
  if (result.found) {
    result.values.resize(mip.columns());
    std::vector<double> rows(mip.rows());
    Highs_getSolution(highs, result.values.data(), nullptr, rows.data(),
                      nullptr);
    // HiGHS calls a solution from before it has searched all below the cutoff
    // optimal, whatever it costs.
    const double cost = std::inner_product(mip.cost.begin(), mip.cost.end(),
                                           result.values.begin(), 0.0);
    if (cost >= cutoff) {
      result.found = false;
      result.values.clear();
      if (result.status == MipResult::Status::kOptimal) {
        result.status = MipResult::Status::kNone;
      }
    }
  }
  return result;
}

// HiGHS has no answer for a model without columns.
MipResult SolveEmpty(const Mip& mip, const MipOptions& options) {
  MipResult result{
      .status = MipResult::Status::kOptimal, .found = true, .bound = 0};
  bool holds = options.cutoff > 0;
  for (int r = 0; r < mip.rows(); ++r) {
    holds = holds && mip.row_lower[r] <= 0 && mip.row_upper[r] >= 0;
  }
  if (!holds) result = {.status = MipResult::Status::kNone};
  return result;
}

}  // namespace

int Mip::AddBinary(double price) {
  cost.push_back(price);
  lower.push_back(0);
  upper.push_back(1);
  whole.push_back(1);
  return columns() - 1;
}

int Mip::AddReal(double least, double most) {
  cost.push_back(0);
  lower.push_back(least);
  upper.push_back(most);
  whole.push_back(0);
  return columns() - 1;
}

void Mip::AddRow(double least, absl::Span<const Term> terms, double most) {
  row_begin.push_back(static_cast<int>(column.size()));
  row_lower.push_back(least);
  row_upper.push_back(most);
  for (const Term& term : terms) {
    if (term.column == kNoColumn || term.factor == 0) continue;
    column.push_back(term.column);
    factor.push_back(term.factor);
  }
}

absl::StatusOr<MipResult> SolveMip(const Mip& mip, const MipOptions& options) {
  static_assert(sizeof(HighsInt) == sizeof(int));
  if (mip.columns() == 0) return SolveEmpty(mip, options);
  const Solver highs(Highs_create(), Highs_destroy);
  if (auto s = SetOptions(highs.get(), options); !s.ok()) return s;
  if (auto s = Pass(highs.get(), mip); !s.ok()) return s;
  if (Highs_run(highs.get()) == kHighsStatusError) {
    return absl::InternalError("HiGHS: the run failed");
  }
  return Read(highs.get(), mip, options.cutoff);
}

}  // namespace ebbtide
