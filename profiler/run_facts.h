// Facts about a run from its trace, without any planning.
#ifndef EBBTIDE_PROFILER_RUN_FACTS_H_
#define EBBTIDE_PROFILER_RUN_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/units.h"
#include "profiler/kind.h"
#include "profiler/trace.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

// Facts about the steps that followed one plan to its end.
struct Followed {
  int64_t steps = 0;
  Time predicted_time = 0;  // last prediction for a whole step
  Time measured_time = 0;   // the median
  Bytes predicted_peak{};
  Bytes measured_peak{};  // the highest
};

// Evictions under one name, an op's.
struct EvictedName {
  std::string name;
  int64_t drops = 0;
  Bytes dropped{};
  int64_t spills = 0;
  Bytes spilled{};
};

// Bytes that could not be dropped where memory was short.
struct Obstacle {
  std::string why;
  Bytes bytes{};
};

// A block that was alive where live bytes are highest.
struct AliveBlock {
  // The op that made it and its shape, as far as known; "" where only the layer
  // is.
  std::string name;
  std::string layer;  // as BlockNote::What::kOfLayer; "" if unknown
  Bytes bytes{};
  Kind kind = Kind::kOther;
  std::string done;  // treatment of it; "" if there was none
};

struct RunFacts {
  bool complete = false;  // the program came to its end
  std::string damage;     // why reading stopped; empty: it did not
  int64_t dropped_records = 0;

  int64_t steps = 0;                // that were seen whole
  std::vector<TraceGap> gaps;       // steps of which only times and peaks are
                                    // recorded
  Bytes budget{-1};                 // the last; negative: none
  Bytes peak{};                     // peak of live bytes
  int64_t peak_step = -1;           // -1: outside of the steps
  std::optional<BytesByKind> live;  // where they are highest
  // Count and bytes of all blocks that are alive there; 0: the trace has none.
  int64_t alive_count = 0;
  Bytes alive_bytes{};
  std::vector<AliveBlock> alive;       // the largest of them, the largest first
  Time step_time = 0;                  // the median; 0: no step is whole
  std::vector<EvictedName> evictions;  // most bytes first

  std::string profile;  // texts, the last of each; empty: there is none
  std::string plan;

  // Facts from the report that ends the trace; nullopt: it has none.
  struct Report {
    std::string state;
    std::string reason;
    std::vector<Followed> followed;
    std::vector<Obstacle> obstacles;  // the most bytes first
    std::string coverage;       // JSON, as in the report; empty: there is none
    std::string out_of_memory;  // the same
  };
  std::optional<Report> report;
};

// Reads the source twice; the memory it takes does not depend on the length of
// the run. `most`: of the blocks that are alive. A report that does not parse
// is none. Errors: the source's.
absl::StatusOr<RunFacts> FactsOf(const TraceSource& source, size_t most = 10);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_RUN_FACTS_H_
