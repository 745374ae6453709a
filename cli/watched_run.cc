#include "cli/watched_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/input.h"
#include "cli/launch.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLook = absl::Milliseconds(200);
constexpr absl::Duration kPatience = absl::Seconds(5);
// A program whose steps never repeat is given up after this many times the
// steps that were asked for.
constexpr int kTries = 4;

volatile std::sig_atomic_t g_signal = 0;

// A folder that is gone, with what is in it, when this is.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::string> Make() {
    const char* root = std::getenv("TMPDIR");
    std::string path = absl::StrCat(
        root != nullptr && *root != '\0' ? root : "/tmp", "/ebbtide-XXXXXX");
    if (mkdtemp(path.data()) != nullptr) return path;
    return absl::ErrnoToStatus(
        errno, absl::StrCat(path, ": expected a folder that can be written"));
  }
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Until it goes out of scope SIGINT and SIGTERM are noted, no more.
class NotedSignals {
 public:
  NotedSignals() {
    g_signal = 0;
    struct sigaction note = {};
    note.sa_handler = [](int signal) { g_signal = signal; };
    for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &note, &before_[i]);
  }
  ~NotedSignals() {
    for (size_t i = 0; i < 2; ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  static constexpr int kSignals[2] = {SIGINT, SIGTERM};
  struct sigaction before_[2] = {};
};

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 2, 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0], &files, &attributes,
                                 words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return child;
  return absl::InvalidArgumentError(WhyNotStarted(command[0], error));
}

// The program and all that it has started.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  // Stops what still runs.
  ~Group() {
    if (IsRunning()) Stop();
    // Only now may the number go to another group.
    waitpid(leader_, nullptr, 0);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool IsRunning() {
    end_ = {};
    waitid(P_PID, leader_, &end_, WEXITED | WNOHANG | WNOWAIT);
    return end_.si_pid == 0;
  }
  // Of a program that is not running any more.
  std::string HowItEnded() const {
    if (end_.si_code == CLD_EXITED) {
      return absl::StrCat("ended with exit status ", end_.si_status);
    }
    return absl::StrCat("ended by signal ", end_.si_status, " (",
                        strsignal(end_.si_status), ")");
  }

 private:
  void Stop() {
    kill(-leader_, SIGTERM);
    const absl::Time last = absl::Now() + kPatience;
    while (IsRunning() && absl::Now() < last) absl::SleepFor(kLook / 10);
    kill(-leader_, SIGKILL);
  }

  const pid_t leader_;
  siginfo_t end_ = {};
};

struct Progress final : TraceVisitor {
  void OnStepEnd(const StepRecord& /*step*/) override { ++steps; }
  void OnText(TraceText text) override {
    has_profile = has_profile || text.kind == TextKind::kProfile;
  }

  int64_t steps = 0;
  bool has_profile = false;
};

Progress ProgressOf(const std::string& path) {
  Progress progress;
  VisitTrace(path, progress).IgnoreError();  // it may not be there yet
  return progress;
}

// Until enough has been seen, or the program ends.
void Follow(const std::string& trace, const WatchLimits& limits, Group* group) {
  const absl::Time last = absl::Now() + limits.time;
  while (g_signal == 0 && group->IsRunning()) {
    absl::SleepFor(kLook);
    const Progress progress = ProgressOf(trace);
    const bool over =
        progress.has_profile
            ? progress.steps >= limits.steps || absl::Now() >= last
            : progress.steps >= kTries * limits.steps;
    // The profile is written just after the end of a step.
    if (over) {
      absl::SleepFor(kLook);
      return;
    }
  }
}

}  // namespace

absl::StatusOr<WatchedRun> WatchRun(const std::vector<std::string>& command,
                                    const WatchLimits& limits) {
  absl::StatusOr<std::string> made = TemporaryFolder::Make();
  if (!made.ok()) return made.status();
  const TemporaryFolder folder(*std::move(made));
  const std::string trace = folder.path() + "/run.ebbtide";
  unsetenv("EBBTIDE_BUDGET");
  unsetenv("EBBTIDE_REPORT");
  absl::Status ready = PutInEnvironment({{"EBBTIDE_RECORD", trace}});
  if (!ready.ok()) return ready;

  const NotedSignals signals;
  const absl::StatusOr<pid_t> child = Spawn(command);
  if (!child.ok()) return child.status();
  WatchedRun run;
  {
    Group group(*child);
    Follow(trace, limits, &group);
    if (!group.IsRunning()) run.ended = group.HowItEnded();
  }
  if (g_signal != 0) return absl::CancelledError("fit: interrupted");
  const Progress progress = ProgressOf(trace);
  run.steps = progress.steps;
  if (!progress.has_profile) {
    return absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(command, " "), ": ",
        run.ended.empty() ? "no step was like the one before it" : run.ended,
        " after ", run.steps,
        " steps; expected a program that trains, the same step several times"));
  }
  absl::StatusOr<Input> input = ReadInput(trace);
  if (!input.ok()) return input.status();
  run.profile = std::get<Profile>(*std::move(input));
  return run;
}

}  // namespace ebbtide
