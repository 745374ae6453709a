// The requests of steps, as they come, until steps are found to repeat.
//
// Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_ARENA_STEP_TRACE_H_
#define EBBTIDE_ALLOCATOR_ARENA_STEP_TRACE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "allocator/arena/arena_plan.h"
#include "planner/units.h"

namespace ebbtide {

struct StepRequest {
  Bytes size{};    // as asked for
  int stream = 0;  // number of the one it is asked for on
  // How many requests came while the block was alive, its own included.
  int64_t life = kLong;
  std::string op = {};  // op that made it; empty: unknown

  static constexpr int64_t kLong = int64_t{1} << 62;  // no end is known
};

// True if both have the same sizes on the same streams.
bool AskForTheSame(const std::vector<StepRequest>& a,
                   const std::vector<StepRequest>& b);

class StepTrace {
 public:
  void BeginStep();
  void OnAllocate(const void* block, Bytes size, int stream,
                  std::string op = "");
  // Ignores blocks that OnAllocate has not recorded.
  void OnFree(const void* block);
  void Clear() { *this = StepTrace(); }

  // The last step but one, where the last one asked for the same; empty where
  // it did not. Lives longer than a step are kLong.
  std::vector<StepRequest> Repeated() const;

  // Bytes of live blocks of the last step whose requests live no longer than a
  // step in `step`, one with the same requests.
  Bytes Returning(const std::vector<StepRequest>& step) const;

 private:
  using Step = std::vector<StepRequest>;
  struct Place {
    int64_t step = 0;
    size_t request = 0;
    int64_t number = 0;  // among the requests of all steps
  };

  // The last of them is going on.
  std::array<Step, 3> steps_;  // by number, modulo their count
  Step& At(int64_t step) { return steps_[step % steps_.size()]; }
  const Step& At(int64_t step) const { return steps_[step % steps_.size()]; }

  int64_t step_ = -1;  // the one that goes on; -1: none has begun
  int64_t count_ = 0;  // number of requests
  absl::flat_hash_map<const void*, Place> alive_;
};

// Where the blocks of a step that repeats lie (planner/place_step.h). Those of
// different streams are taken to be over when the program has freed them: the
// next at their addresses is to run behind (allocator/arena/planned_arena.h).
struct StepLayout {
  ArenaPlan plan;
  Bytes bound{};  // the most that is alive at once of what is placed
};

// The errors of PlaceStep. With `page` 0 no slot is scattered.
absl::StatusOr<StepLayout> LayOut(const std::vector<StepRequest>& step,
                                  Bytes page = Bytes{0});

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_STEP_TRACE_H_
