// The rank of this process in its job, and whether processes beside it train.
#ifndef EBBTIDE_HOOKS_RANK_H_
#define EBBTIDE_HOOKS_RANK_H_

#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide {

// The number of this process among those that train together: as launchers say
// it (RANK and WORLD_SIZE), else of torch.distributed's default group; nullopt
// where it trains alone, or nothing is known yet.
std::optional<int> RankOfProcess();

// Where this process writes what was asked for as `path`: "run.rank3.ebbtide"
// for "run.ebbtide" and rank 3. A path that is no regular file (/dev/null, a
// pipe) is shared by all.
std::string FileOfRank(const std::string& path, std::optional<int> rank);

// Grows with each process that this one has started and waited for.
int64_t FaultsOfChildren();

// True if the job may train in other processes: an ancestor process has
// ebbtide, too (`is_below`), or this process has waited for children since
// FaultsOfChildren() was `faults_before`.
bool HasProcessesBeside(bool is_below, int64_t faults_before);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RANK_H_
