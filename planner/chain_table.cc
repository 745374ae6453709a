#include "planner/chain_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/chain_rows.h"
#include "planner/floating_cells.h"
#include "planner/segment_cells.h"

namespace ebbtide {
namespace {

constexpr int64_t kMostSlots = 1 << 18;
constexpr double kMostTableBytes = 4e9;
constexpr double kMostTerms = 1.2e11;  // about a minute

template <class Cells>
std::unique_ptr<ChainTable> MakeRows(SlotChain chain, ChainSolver solver,
                                     int threads) {
  if (chain.small_times) {
    return std::make_unique<ChainRows<int32_t, Cells>>(
        std::move(chain), solver.unpinned, threads);
  }
  return std::make_unique<ChainRows<double, Cells>>(std::move(chain),
                                                    solver.unpinned, threads);
}

// As many slots as fit into `bytes` of a table and `terms` sums.
int64_t SlotsFor(const TableWork& work, double bytes, double terms) {
  const double slots =
      std::min(bytes / sizeof(Time) / work.rows, terms / work.terms);
  return std::clamp(static_cast<int64_t>(slots), kFewestSlots, kMostSlots);
}

}  // namespace

std::optional<ChainSolver> ParseChainSolver(absl::string_view name) {
  if (name == "rotor") return ChainSolver{};
  if (name == "floating") return ChainSolver{.floating = true};
  if (name == "unpinned") return ChainSolver{.unpinned = true};
  if (name == "unpinned-floating") {
    return ChainSolver{.unpinned = true, .floating = true};
  }
  return std::nullopt;
}

TableWork WorkOf(const Chain& chain, ChainSolver solver) {
  const double n = Stages(chain) + 1;
  const double ways = 1 + static_cast<double>(chain.options.size()) / n;
  const double forms = solver.unpinned ? 1 + ways : 1;
  TableWork work;
  if (solver.floating) {
    const double kinds = solver.unpinned ? forms * forms : 1;
    work.rows = kinds * n * n * n / 6;
    work.terms = work.rows * forms * n / 4;
  } else {
    work.rows = forms * n * n / 2;
    work.terms = forms * forms * n * n * n / 6;
  }
  return work;
}

int64_t UsualSlots(const TableWork& work) { return SlotsFor(work, 5e8, 2e9); }
int64_t FineSlots(const TableWork& work) { return SlotsFor(work, 2e9, 2e10); }

absl::Status CheckTableSize(const Chain& chain, ChainSolver solver) {
  const TableWork work = WorkOf(chain, solver);
  const double bytes = work.rows * kFewestSlots * sizeof(Time);
  if (bytes <= kMostTableBytes && work.terms * kFewestSlots <= kMostTerms) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a chain of ", Stages(chain), " stages and ", chain.options.size(),
      " options is too long for this solver: its table would have ", bytes,
      " bytes, of ", kMostTableBytes, " allowed, and take ",
      work.terms * kFewestSlots, " sums, of ", kMostTerms, " allowed"));
}

std::unique_ptr<ChainTable> MakeChainTable(SlotChain chain, ChainSolver solver,
                                           int threads) {
  return solver.floating
             ? MakeRows<FloatingCells>(std::move(chain), solver, threads)
             : MakeRows<SegmentCells>(std::move(chain), solver, threads);
}

SlotChain UsualSlotChain(const Chain& chain, ChainSolver solver,
                         Rounding rounding) {
  return CountSlots(chain, EnoughFor(chain), UsualSlots(WorkOf(chain, solver)),
                    rounding);
}

}  // namespace ebbtide
