// The out-of-memory report: a text file written where the error is raised.
#ifndef EBBTIDE_HOOKS_OUT_OF_MEMORY_H_
#define EBBTIDE_HOOKS_OUT_OF_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

struct OutOfMemory {
  Bytes request{};     // 0: ebbtide's own request, to restore evicted bytes
  std::string device;  // "cpu", "cuda:0"
  std::string where;   // the op; "" if unknown
  int64_t step = 0;
  std::string state;  // state of the runtime
  Bytes budget{-1};   // negative: none
  Bytes live{};
  BytesByKind live_by_kind{};
  struct Block {
    Bytes bytes{};
    Kind kind = Kind::kOther;
    std::string op;    // that wrote it last; "" where no recorded op did
    std::string held;  // for what, as far as it is known
  };
  std::vector<Block> largest;
  std::string floor;               // "" where it is not known
  std::vector<std::string> helps;  // settings that would have helped, a line
                                   // each
  std::string file;                // where this is written; "" if it is not
};

// The lines of the file.
std::string OutOfMemoryText(const OutOfMemory& what);

// Writes the text to ebbtide-oom-PID.txt in the first of the folders that takes
// a new file of that name, and returns its path; "" where none does. Allocates
// from malloc alone.
std::string WriteOutOfMemory(const OutOfMemory& what,
                             const std::vector<std::string>& folders);

// Beside `report` (EBBTIDE_REPORT) if it is given, else in the current
// directory; then $TMPDIR, then /tmp.
std::vector<std::string> FoldersForReports(const std::string& report);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_OUT_OF_MEMORY_H_
