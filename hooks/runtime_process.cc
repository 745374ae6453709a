// The runtime among the processes of a job: forks, ranks and their files.
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/guarded.h"
#include "hooks/last_words.h"
#include "hooks/rank.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"

namespace ebbtide {
namespace {

// A word to paste into a shell.
std::string InShell(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:=@";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace

void Runtime::BeforeFork() {
  RuntimeLock::Acquire();
  LockGuardForFork();
  Device::Get().BeforeFork();
  RunLog::Global().BeforeFork();
}

void Runtime::AfterForkInParent() {
  RunLog::Global().AfterForkInParent();
  Device::Get().AfterFork();
  UnlockGuardAfterFork();
  Global().residency_.AfterForkInParent();
  RuntimeLock::Mutex().unlock();
}

// The copy threads are gone. Held bytes stay readable; nothing else is done,
// and only the parent prints, unless the child begins to train.
void Runtime::AfterForkInChild() {
  RunLog::Global().AfterForkInChild();
  Device::Get().AfterFork();
  UnlockGuardAfterFork();
  // Its owner is a thread id that the child does not have: it is made anew.
  new (&RuntimeLock::Mutex()) std::recursive_timed_mutex;
  Global().residency_.AfterForkInChild();
  Global().weights_.Retire();
  Global().watch_.kernels().Forget();
  const bool was_asked_for = Global().state_ != State::kOff;
  Global().state_ = State::kOff;
  Global().is_quiet_ = true;
  Global().out_of_memory_told_ = false;
  if (Global().progress_) Global().progress_->Forget();
  Global().is_new_child_ = was_asked_for;
}

void Runtime::TrainInChild() {
  is_new_child_ = false;
  is_quiet_ = false;
  settings_.is_below = true;
  if (has_trained_ || Device::Get().is_async()) {
    off_because_ = "forked by a process that had trained: unmanaged";
    return SayHere(absl::StrCat("off: ", off_because_));
  }
  // Its threads are the parent's: left to it.
  residency_.LeaveTier();
  if (settings_.budget) {
    auto tier = Device::Get().OpenTier(settings_);
    if (tier.ok()) residency_.SetTier(*std::move(tier));
  }
  Begin();
  is_partial_ = true;
}

// The rank is known here at the latest: process groups are gone at the end.
void Runtime::OnFirstPair() {
  if (RankOfProcess().value_or(0) == 0) StartProgress();
  if (!settings_.record.empty()) OpenLog();
}

void Runtime::OpenLog() {
  const std::string file = FileOfRank(settings_.record, RankOfProcess());
  const absl::Status opened =
      RunLog::Global().Open(file, settings_.record_limit, &ledger());
  if (opened.ok()) {
    // `ebbtide fit`, which asks for no progress, discards its trace.
    std::error_code error;
    if (settings_.progress && std::filesystem::is_regular_file(file, error)) {
      timeline_ = absl::StrCat("; to see it: ebbtide timeline ", InShell(file));
    }
    if (settings_.budget) RunLog::Global().SetBudget(*settings_.budget);
    return residency_.LogCopies();
  }
  settings_.record.clear();
  if (!settings_.budget) return TurnOff(std::string(opened.message()));
  SayHere(absl::StrCat("no ", opened.message()));
}

bool Runtime::IsBystander() const {
  return !has_trained_ &&
         HasProcessesBeside(settings_.is_below, faults_of_children_);
}

void Runtime::Say(const std::string& line) const {
  if (RankOfProcess().value_or(0) == 0) SayHere(line);
}

std::string Runtime::LastLine() const {
  return settings_.log == Settings::Log::kOff
             ? ""
             : absl::StrCat("ebbtide: ", RankLabel(), ClosingLine(report_),
                            timeline_);
}

void Runtime::RefreshLastWords(double now) {
  if (now < last_words_due_ || is_quiet_) return;
  FillReport();
  LastWords words;
  if (const std::string line = LastLine(); !line.empty()) {
    words.line = absl::StrCat(line, "\n");
  }
  if (!settings_.report.empty()) {
    words.report = absl::StrCat(ReportToJson(report_), "\n");
    words.file = FileOfRank(settings_.report, RankOfProcess());
  }
  KeepLastWords(std::move(words));
  last_words_due_ = now + 1000 * (Seconds() - now);
}

void Runtime::SayHere(const std::string& line) const {
  if (settings_.log == Settings::Log::kOff || is_quiet_) return;
  std::fprintf(stderr, "ebbtide: %s%s\n", RankLabel().c_str(), line.c_str());
}

std::string Runtime::RankLabel() {
  const auto rank = RankOfProcess();
  return rank ? absl::StrCat("rank ", *rank, ": ") : "";
}

}  // namespace ebbtide
