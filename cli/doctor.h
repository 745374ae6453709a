// Checks of a machine for ebbtide, line by line. The checks look at a view of
// the system that is data, so that tests can make up any machine.
#ifndef EBBTIDE_CLI_DOCTOR_H_
#define EBBTIDE_CLI_DOCTOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocator/host_limit.h"
#include "cli/driver_view.h"
#include "planner/units.h"

namespace ebbtide {

// The python that ebbtide is installed for, as it answers.
struct PythonView {
  std::string path;     // empty: none beside the program or on PATH
  std::string problem;  // why it gave no answer; empty: it did
  std::string version;
  std::string torch;          // version; empty: it has none that imports
  std::string torch_problem;  // why not
  std::string torch_cuda;     // that torch was built for; empty: none
  std::vector<std::string> entry_points;  // "name=module:function"
  int64_t driver = 0;  // version of CUDA, as torch finds it: 12040; 0: it finds
                       // none
  std::vector<std::string> devices;  // "NVIDIA H100, 80.00 GiB"
  std::string devices_problem;
  bool has_cupti = false;
};

struct SpillView {
  std::string folder;
  std::string problem;  // why nothing can be offloaded there; empty: it can
  std::string file_system;
  bool is_direct = false;  // past the page cache
  Bytes free{};
  double out = 0;  // bytes per nanosecond
  double back = 0;
};

struct SystemView {
  std::map<std::string, std::string> variables;
  // The runtime's error about them at start; empty: it accepts them.
  std::string settings_problem;
  std::string preload;  // the library; empty: not found
  std::string preload_problem;
  std::vector<std::string> built_for;  // versions of torch; none: unknown
  PythonView python;
  DriverView driver;
  SpillView spill;
  Bytes ram{};
  std::optional<Bytes> cgroup;   // nullopt: no limit
  std::optional<Bytes> memlock;  // the same
  HostLimit pinned;
};

struct Finding {
  // kLimited: works, but not all of it or not as well. kMissing: does not.
  enum class State { kOk, kLimited, kMissing };
  State state = State::kOk;
  std::string name;    // the thing that was checked, in a word or two
  std::string what;    // result of the check
  std::string advice;  // action to take; empty where all is well
  // Without it nothing is managed, on CPU either.
  bool is_needed = false;
};
const char* StateName(Finding::State state);  // "ok", "limited", "missing"

// Every check in its order; each gives one line or several.
std::vector<Finding> Diagnose(const SystemView& system);

// True if everything is there that CPU mode needs.
bool IsFit(const std::vector<Finding>& findings);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_DOCTOR_H_
