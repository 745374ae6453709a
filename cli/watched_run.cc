#include "cli/watched_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/input.h"
#include "cli/launch.h"
#include "nlohmann/json.hpp"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLook = absl::Milliseconds(200);
constexpr absl::Duration kPatience = absl::Seconds(5);
// A program without a profile is given up after this many times the steps that
// were asked for.
constexpr int kTries = 4;
// A profile of a step this part smaller than the largest is of the same kind,
// and a later one has better times.
constexpr int kAlikePart = 64;

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
  // Describes the end of a program that is not running any more.
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
    if (text.kind == TextKind::kProfile) profiles.push_back(text.text);
  }

  int64_t steps = 0;
  std::vector<std::string> profiles;
};

Progress ProgressOf(const std::string& path) {
  Progress progress;
  VisitTrace(path, progress).IgnoreError();  // it may not be there yet
  return progress;
}

// How the program ended by itself; empty where it was stopped, as enough had
// been seen.
absl::StatusOr<std::string> Follow(const std::vector<std::string>& command,
                                   const std::string& trace, bool for_profile,
                                   const WatchLimits& limits) {
  const NotedSignals signals;
  const absl::StatusOr<pid_t> child = Spawn(command);
  if (!child.ok()) return child.status();
  std::string ended;
  {
    Group group(*child);
    const absl::Time last = absl::Now() + limits.time;
    bool is_enough = false;
    while (g_signal == 0 && group.IsRunning() && !is_enough) {
      absl::SleepFor(kLook);
      const Progress progress = ProgressOf(trace);
      is_enough = for_profile && progress.profiles.empty()
                      ? progress.steps >= kTries * limits.steps
                      : progress.steps >= limits.steps || absl::Now() >= last;
    }
    // The profile is written just after the end of a step.
    if (is_enough) absl::SleepFor(kLook);
    if (!group.IsRunning()) ended = group.HowItEnded();
  }
  if (g_signal != 0) return absl::CancelledError("fit: interrupted");
  return ended;
}

absl::StatusOr<Profile> LargestOf(const std::vector<std::string>& profiles,
                                  const std::string& trace) {
  Profile largest;
  int64_t most = -1;
  for (const std::string& text : profiles) {
    auto profile = ProfileFromJson(text, trace);
    if (!profile.ok()) return profile.status();
    const int64_t peak = Count(UnmanagedPeak(*profile));
    if (peak < most - most / kAlikePart) continue;
    most = std::max(most, peak);
    largest = *std::move(profile);
  }
  return largest;
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

  const auto ended = Follow(command, trace, /*for_profile=*/true, limits);
  if (!ended.ok()) return ended.status();
  const Progress progress = ProgressOf(trace);
  WatchedRun run;
  run.steps = progress.steps;
  run.ended = *ended;
  if (progress.profiles.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(command, " "), ": ",
        run.ended.empty() ? "no step was complete" : run.ended, " after ",
        run.steps, " steps; expected a program that trains for several steps"));
  }
  auto profile = LargestOf(progress.profiles, trace);
  if (!profile.ok()) return profile.status();
  run.profile = *std::move(profile);
  return run;
}

absl::StatusOr<CheckedRun> CheckRun(const std::vector<std::string>& command,
                                    Bytes budget, const WatchLimits& limits) {
  absl::StatusOr<std::string> made = TemporaryFolder::Make();
  if (!made.ok()) return made.status();
  const TemporaryFolder folder(*std::move(made));
  const std::string trace = folder.path() + "/run.ebbtide";
  const std::string report = folder.path() + "/report.json";
  absl::Status ready =
      PutInEnvironment({{"EBBTIDE_RECORD", trace},
                        {"EBBTIDE_REPORT", report},
                        {"EBBTIDE_BUDGET", absl::StrCat(Count(budget), "B")}});
  if (!ready.ok()) return ready;
  const auto ended = Follow(command, trace, /*for_profile=*/false, limits);
  if (!ended.ok()) return ended.status();
  const auto text = ReadFile(report);
  const auto json = nlohmann::json::parse(text.ok() ? *text : "", nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::FailedPreconditionError("the program left no report");
  }
  return CheckedRun{.steps = json.value("steps", int64_t{0}),
                    .over = json.value("over_budget_steps", int64_t{0}),
                    .peak = Bytes{json.value("peak", int64_t{0})}};
}

}  // namespace ebbtide
