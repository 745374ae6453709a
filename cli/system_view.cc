#include "cli/system_view.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/launch.h"
#include "cli/spill_speed.h"
#include "hooks/settings.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

// Importing torch from a cold disk takes tens of seconds.
constexpr absl::Duration kPatience = absl::Seconds(120);

constexpr char kProbe[] = R"(
import ctypes, importlib.metadata, json, sys
answer = {
    "version": "%d.%d.%d" % sys.version_info[:3],
    "entry_points": sorted(
        f"{e.name}={e.value}"
        for e in importlib.metadata.entry_points(group="torch.backends")
    ),
}
try:
    import torch
    answer["torch"] = torch.__version__
    answer["cuda"] = torch.version.cuda or ""
except Exception as error:
    answer["torch_problem"] = f"{type(error).__name__}: {error}"
if answer.get("cuda"):
    try:
        answer["driver"] = torch._C._cuda_getDriverVersion()
    except Exception:
        pass
    try:
        for i in range(torch.cuda.device_count()):
            p = torch.cuda.get_device_properties(i)
            gib = p.total_memory / 2**30
            answer.setdefault("devices", []).append(f"{p.name}, {gib:.2f} GiB")
    except Exception as error:
        answer["devices_problem"] = f"{type(error).__name__}: {error}"
    try:
        ctypes.CDLL("libcupti.so.13")
        answer["cupti"] = True
    except OSError:
        answer["cupti"] = False
print()
print(json.dumps(answer))
)";

// The first executable of that name on PATH, as execvp would find it; "": none.
std::string OnPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::vector<std::string> folders =
      absl::StrSplit(path == nullptr ? "" : path, ':');
  for (const std::string& folder : folders) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return "";
}

// Our environment, and ebbtide out of the way.
std::vector<std::string> EnvironmentOfProbe() {
  std::vector<std::string> variables = {"EBBTIDE_DISABLE=1"};
  for (char** each = environ; *each != nullptr; ++each) {
    if (!absl::StartsWith(*each, "EBBTIDE_")) variables.emplace_back(*each);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* words) {
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that comes until the end or the deadline; false: the deadline.
bool ReadAll(int file, absl::Time deadline, std::string* text) {
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    pollfd ready = {.fd = file, .events = POLLIN};
    const int count = left > 0 ? poll(&ready, 1, static_cast<int>(left)) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    char part[4096];
    const ssize_t size = read(file, part, sizeof(part));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    text->append(part, static_cast<size_t>(size));
  }
}

// Returns the program's output; `problem` is set if it did not end normally.
std::string OutputOf(std::vector<std::string> words, std::string* problem) {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    *problem = std::strerror(errno);
    return "";
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, ends[1], 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> variables = EnvironmentOfProbe();
  pid_t child = 0;
  const int error =
      posix_spawn(&child, words[0].c_str(), &files, nullptr,
                  Pointers(&words).data(), Pointers(&variables).data());
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  std::string text;
  if (error != 0) {
    *problem = std::strerror(error);
  } else {
    if (!ReadAll(ends[0], absl::Now() + kPatience, &text)) {
      *problem =
          absl::StrCat("no answer within ", absl::FormatDuration(kPatience));
      kill(child, SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (problem->empty() && status != 0) *problem = "it does not start";
  }
  close(ends[0]);
  return text;
}

// The python beside this program, which is the one that it is installed for, or
// else the first on PATH; "": none.
std::string FindPython() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / "python";
  if (!error && access(beside.c_str(), X_OK) == 0) return beside.string();
  const std::string path = OnPath("python");
  return path.empty() ? OnPath("python3") : path;
}

PythonView LookAtPython() {
  const std::string path = FindPython();
  if (path.empty()) return {};
  std::string problem;
  const std::string answer = OutputOf({path, "-c", kProbe}, &problem);
  if (problem.empty()) return ParsePython(path, answer);
  return {.path = path, .problem = problem};
}

SpillView LookAtSpill() {
  SpillView view = {.folder = SpillFolder()};
  const auto speed = MeasureSpillSpeed();
  if (!speed.ok()) {
    view.problem = std::string(speed.status().message());
    return view;
  }
  view.file_system = speed->file_system;
  view.is_direct = speed->is_direct;
  view.out = speed->out;
  view.back = speed->back;
  struct statvfs room = {};
  if (statvfs(view.folder.c_str(), &room) == 0) {
    view.free = Bytes{static_cast<int64_t>(room.f_bavail * room.f_frsize)};
  }
  return view;
}

// The least limit of the cgroup at the root of what this process sees.
std::optional<Bytes> LookAtCgroup() {
  std::optional<Bytes> least;
  for (const char* path : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    int64_t bytes = 0;
    // Version 1 says "no limit" by a number near the largest.
    if (file >> bytes && bytes < int64_t{1} << 60) {
      least = std::min(least.value_or(Bytes{bytes}), Bytes{bytes});
    }
  }
  return least;
}

std::optional<Bytes> LookAtMemlock() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return Bytes{static_cast<int64_t>(limit.rlim_cur)};
}

std::string FirstWordOf(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Beside the libraries as they are built, or as they are installed, where more
// may lie below.
std::vector<std::string> BuiltFor(const fs::path& preload) {
  const fs::path folder = preload.parent_path();
  std::vector<fs::path> files = {folder / "../python/torch_version",
                                 folder / "torch_version"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    files.push_back(entry.path() / "torch_version");
  }
  std::sort(files.begin() + 2, files.end());
  std::vector<std::string> versions;
  for (const fs::path& file : files) {
    std::string version = FirstWordOf(file);
    if (!version.empty()) versions.push_back(std::move(version));
  }
  return versions;
}

}  // namespace

PythonView ParsePython(const std::string& path, const std::string& answer) {
  PythonView python = {.path = path};
  try {
    const std::vector<std::string> lines =
        absl::StrSplit(answer, '\n', absl::SkipEmpty());
    const auto json = nlohmann::json::parse(lines.empty() ? "" : lines.back());
    python.version = json.at("version");
    python.entry_points = json.at("entry_points");
    python.torch = json.value("torch", "");
    python.torch_problem = json.value("torch_problem", "");
    python.torch_cuda = json.value("cuda", "");
    python.driver = json.value("driver", int64_t{0});
    python.devices = json.value("devices", std::vector<std::string>());
    python.devices_problem = json.value("devices_problem", "");
    python.has_cupti = json.value("cupti", false);
  } catch (const nlohmann::json::exception&) {
    return {.path = path, .problem = "its answer is not what was expected"};
  }
  return python;
}

SystemView LookAtSystem() {
  SystemView view;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(*each, absl::MaxSplits('=', 1));
    view.variables.insert(variable);
  }
  const auto settings = SettingsFromEnvironment();
  view.settings_problem = std::string(settings.status().message());
  // It forks: before anything that may start a thread.
  view.driver = LookAtDriver();
  const auto preload = FindPreload();
  if (preload.ok()) {
    view.preload = *preload;
    view.built_for = BuiltFor(*preload);
  } else {
    view.preload_problem = std::string(preload.status().message());
  }
  view.python = LookAtPython();
  view.spill = LookAtSpill();
  struct sysinfo info = {};
  sysinfo(&info);
  view.ram = Bytes{static_cast<int64_t>(info.totalram) * info.mem_unit};
  view.cgroup = LookAtCgroup();
  view.memlock = LookAtMemlock();
  std::optional<Bytes> asked;
  if (settings.ok()) asked = settings->host_budget;
  view.pinned = PinnedLimit(asked);
  return view;
}

}  // namespace ebbtide
