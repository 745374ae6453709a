#include "cli/doctor.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/doctor_checks.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

// "2.11" of "2.11.0+cpu".
std::string Minor(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  return parts.size() < 2 ? version : absl::StrCat(parts[0], ".", parts[1]);
}

// "2.11, 2.15".
std::string Minors(const std::vector<std::string>& versions) {
  return absl::StrJoin(versions, ", ",
                       [](std::string* out, const std::string& version) {
                         absl::StrAppend(out, Minor(version));
                       });
}

Findings CheckLibrary(const SystemView& system) {
  if (system.preload.empty()) {
    return {
        Needed("library", system.preload_problem, "install the wheel again")};
  }
  return {Ok("library", system.preload)};
}

Findings CheckPython(const SystemView& system) {
  const PythonView& python = system.python;
  if (python.path.empty()) {
    return {Limited("python", "no python on PATH",
                    "name it by its path; C++ programs need none")};
  }
  if (!python.problem.empty()) {
    return {Needed("python", absl::StrCat(python.path, ": ", python.problem),
                   "make it start, or put another one first on PATH")};
  }
  return {Ok("python", absl::StrCat(python.version, ", ", python.path))};
}

Findings CheckTorch(const SystemView& system) {
  const PythonView& python = system.python;
  const std::string versions = Minors(system.built_for);
  const std::string wanted = absl::StrCat("install torch ", versions);
  if (python.version.empty()) return {};
  if (python.torch.empty()) {
    return {Needed("torch", python.torch_problem, wanted)};
  }
  const std::string what =
      absl::StrCat(python.torch, python.torch_cuda.empty()
                                     ? ", for CPU"
                                     : ", for CUDA " + python.torch_cuda);
  if (system.built_for.empty()) {
    return {Limited("torch", what,
                    "nobody knows which version ebbtide was built for: "
                    "install the wheel again")};
  }
  const bool is_known = std::any_of(
      system.built_for.begin(), system.built_for.end(),
      [&](const auto& each) { return Minor(each) == Minor(python.torch); });
  if (!is_known) {
    return {Needed("torch",
                   absl::StrCat(what, "; ebbtide was built for ", versions),
                   wanted)};
  }
  return {
      Ok("torch", absl::StrCat(what, "; the version ebbtide was built for"))};
}

constexpr char kOurEntryPoint[] = "ebbtide=";

Findings CheckEntryPoints(const SystemView& system) {
  const PythonView& python = system.python;
  if (python.torch.empty()) return {};
  Findings findings;
  std::vector<std::string> others;
  bool is_there = false;
  for (const std::string& entry : python.entry_points) {
    if (absl::StartsWith(entry, kOurEntryPoint)) {
      is_there = true;
    } else {
      others.push_back(entry);
    }
  }
  if (is_there) {
    findings.push_back(
        Ok("entry point", "torch.backends has ours: variables are enough"));
  } else {
    findings.push_back(
        Limited("entry point", "the wheel is not installed for this python",
                "start programs by `ebbtide run`, or install the wheel there"));
  }
  if (!others.empty()) {
    findings.push_back(Limited(
        "other backends",
        absl::StrCat("torch.backends also has ", absl::StrJoin(others, ", ")),
        "one that replaces an allocator or the autograd engine keeps ebbtide "
        "from its work: look at the closing line"));
  }
  return findings;
}

Findings CheckAutoload(const SystemView& system) {
  if (Variable(system, "TORCH_DEVICE_BACKEND_AUTOLOAD") != "0") return {};
  return {Needed("autoload",
                 "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from calling "
                 "ebbtide in Python programs",
                 "unset it")};
}

// "for CUDA 13.0".
std::string ForCuda(int64_t version) {
  return absl::StrFormat("for CUDA %d.%d", version / 1000, version % 1000 / 10);
}

Findings CheckDriver(const SystemView& system) {
  const DriverView& driver = system.driver;
  if (!driver.file.empty() && driver.problem.empty()) {
    return {Ok("driver",
               driver.version == 0
                   ? driver.file
                   : absl::StrCat(ForCuda(driver.version), ", ", driver.file))};
  }
  // Torch may know of one that the loader does not find from here.
  if (system.python.driver > 0) {
    return {Ok("driver", absl::StrCat(ForCuda(system.python.driver),
                                      ", which torch finds"))};
  }
  if (!driver.file.empty()) {
    return {Missing("driver", absl::StrCat(driver.file, ": ", driver.problem),
                    "nothing for CPU mode; else see what nvidia-smi says, and "
                    "that CUDA_VISIBLE_DEVICES names a device")};
  }
  if (system.python.torch_cuda.empty()) return {};
  return {Missing("driver", absl::StrCat("no CUDA driver: ", driver.problem),
                  "nothing for CPU mode; else install NVIDIA's driver")};
}

Findings CheckCuda(const SystemView& system) {
  const PythonView& python = system.python;
  if (python.torch.empty()) return {};
  if (python.torch_cuda.empty()) {
    return {Missing("CUDA", "this torch is for CPU",
                    "nothing for CPU mode; else install a torch with CUDA")};
  }
  if (system.driver.file.empty() && python.driver == 0) return {};
  Findings findings;
  if (python.devices.empty()) {
    const std::string& problem = python.devices_problem;
    findings.push_back(Missing(
        "device", problem.empty() ? "torch sees no CUDA device" : problem,
        "nothing for CPU mode; else see that the driver fits torch's CUDA and "
        "CUDA_VISIBLE_DEVICES names a device"));
  }
  for (size_t i = 0; i < python.devices.size(); ++i) {
    findings.push_back(Ok(absl::StrCat("device cuda:", i), python.devices[i]));
  }
  if (system.driver.without_pages > 0) {
    findings.push_back(Missing(
        "device memory",
        absl::StrCat(system.driver.without_pages, " of ", python.devices.size(),
                     " devices cannot map memory in pages"),
        "budgets hold there, too, but PyTorch's segments go back whole only: "
        "more is evicted"));
  }
  return findings;
}

Findings CheckCupti(const SystemView& system) {
  const PythonView& python = system.python;
  if (python.torch.empty() || python.torch_cuda.empty()) return {};
  if (python.has_cupti) return {Ok("CUPTI", "libcupti.so.13 opens")};
  return {Missing("CUPTI", "libcupti.so.13 does not open",
                  "times of ops are those of CUDA events; EBBTIDE_CUPTI=1 "
                  "needs the package nvidia-cuda-cupti")};
}

Findings CheckMemory(const SystemView& system) {
  Findings findings = {Ok("RAM", FormatSize(system.ram))};
  findings.push_back(Ok(
      "cgroup", system.cgroup
                    ? absl::StrCat("memory limit ", FormatSize(*system.cgroup))
                    : std::string("no memory limit")));
  return findings;
}

Findings CheckPinned(const SystemView& system) {
  // The usual limit. The driver does not count what it pins.
  constexpr Bytes kUsual{8 << 20};
  Findings findings;
  const HostLimit& pinned = system.pinned;
  const std::string what =
      absl::StrCat(FormatSize(pinned.bytes), ", bounded by ", pinned.maker);
  if (Count(pinned.bytes) == 0) {
    findings.push_back(Missing("pinned memory", what,
                               "on CUDA nothing can be moved to the host: "
                               "raise that bound"));
  } else {
    findings.push_back(Ok("pinned memory", what));
  }
  if (!system.memlock) {
    findings.push_back(Ok("memlock", "no limit"));
  } else if (*system.memlock >= kUsual) {
    findings.push_back(Ok("memlock", FormatSize(*system.memlock)));
  } else {
    findings.push_back(
        Limited("memlock", FormatSize(*system.memlock),
                "on CUDA, where pinning fails at it: ulimit -l unlimited"));
  }
  return findings;
}

Findings CheckSpill(const SystemView& system) {
  const SpillView& spill = system.spill;
  if (OffloadFolder(system) == "none") {
    return {Limited("offloading", "EBBTIDE_OFFLOAD_DIR=none forbids it",
                    "unset it to have bytes copied away, too")};
  }
  if (!spill.problem.empty()) {
    return {
        Limited("offloading", spill.problem,
                "set EBBTIDE_OFFLOAD_DIR to a folder on a disk: without one "
                "bytes are only recomputed")};
  }
  const std::string what = absl::StrFormat(
      "%s on %s%s, %.0f MB/s out and %.0f MB/s back, %s free", spill.folder,
      spill.file_system, spill.is_direct ? "" : " through the page cache",
      1e3 * spill.out, 1e3 * spill.back, FormatSize(spill.free));
  if (!spill.is_direct) {
    return {Limited("offloading", what,
                    "a folder whose file system takes O_DIRECT leaves the page "
                    "cache alone")};
  }
  return {Ok("offloading", what)};
}

using Check = Findings (*)(const SystemView& system);
constexpr Check kChecks[] = {
    CheckLibrary,        CheckPython, CheckTorch,  CheckEntryPoints,
    CheckAutoload,       CheckDriver, CheckCuda,   CheckCupti,
    CheckMemory,         CheckPinned, CheckSpill,  CheckPreloaded,
    CheckTorchAllocator, CheckNames,  CheckValues,
};

}  // namespace

const char* StateName(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kLimited:
      return "limited";
    case Finding::State::kMissing:
      return "missing";
  }
  return "";
}

std::vector<Finding> Diagnose(const SystemView& system) {
  std::vector<Finding> findings;
  for (const Check check : kChecks) {
    Findings some = check(system);
    std::move(some.begin(), some.end(), std::back_inserter(findings));
  }
  return findings;
}

bool IsFit(const std::vector<Finding>& findings) {
  return std::none_of(
      findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.state == Finding::State::kMissing && finding.is_needed;
      });
}

}  // namespace ebbtide
