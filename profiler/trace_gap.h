// The detail of steps that were left out of a trace, and the records to write
// behind them so that the rest is exact again.
#ifndef EBBTIDE_PROFILER_TRACE_GAP_H_
#define EBBTIDE_PROFILER_TRACE_GAP_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "planner/units.h"
#include "profiler/trace.h"

namespace ebbtide {

// The records of a step, besides its times and its peak.
using TraceDetail =
    std::variant<BlockEvent, BlockNote, TierSample, Span, Eviction>;

class MissedDetail {
 public:
  // Adds a record that the file does not get. Allocated blocks still use up
  // numbers.
  void Add(const TraceDetail& detail);
  // A block of the file was freed without a record.
  void AddFree(int64_t block, Bytes bytes) {
    freed_.emplace_back(block, bytes);
  }

  // Records that bring a reader up to date at `time`: blocks that the file has
  // as alive and that are not, blocks of another kind, live blocks that it
  // lacks. `rest` is that of the last event of the file, `live` all that is
  // alive now, `told` the bytes of the blocks that the file has as alive.
  // Between these events the sum of live bytes means nothing but stays between
  // the two that are exact.
  std::vector<TraceDetail> CatchUp(int64_t time, Bytes rest, Bytes told,
                                   Bytes live) const;

 private:
  struct Found {
    Bytes bytes{};
    Kind kind = Kind::kOther;
    int name = -1;
    std::vector<BlockNote> notes;  // the last of each kind
  };

  void AddBlock(const BlockEvent& event);
  void AddNote(const BlockNote& note);

  std::vector<std::pair<int64_t, Bytes>> freed_;  // freed blocks that the file
                                                  // has
  absl::btree_map<int64_t, Kind> retagged_;       // the same
  absl::btree_map<int64_t, Found> found_;         // alive, that it does not
  bool forgotten_ = false;                        // it has none that is alive
  std::optional<TierSample> tier_;                // the last
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_GAP_H_
