// Which of the processes of a job this is: those that train together, and those
// that only start others.
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
// for "run.ebbtide" and rank 3. What is no regular file (/dev/null, a pipe) is
// everybody's.
std::string FileOfRank(const std::string& path, std::optional<int> rank);

// Grows with each process that this one has started and waited for.
int64_t FaultsOfChildren();

// Whether there are others that the job may train in: one that ebbtide was
// started in before has started this one (`is_below`), or this one has waited
// for others since FaultsOfChildren() was `faults_before`.
bool HasProcessesBeside(bool is_below, int64_t faults_before);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RANK_H_
