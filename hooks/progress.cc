#include "hooks/progress.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr double kOnTerminal = 0.25;  // seconds
constexpr double kFirstInLog = 30;
constexpr double kLongestInLog = 600;
// A window with fewer is too small to read.
constexpr int kLeastRows = 4;

constexpr char kSave[] = "\0337";
constexpr char kRestore[] = "\0338";

// Makes the last row free, leaves the cursor where the program has it, and has
// the rows above scroll by themselves.
std::string TakeRow(int rows) {
  return absl::StrCat("\033D", kSave, "\033[1;", rows - 1, "r", kRestore,
                      "\033[1A");
}

std::string AtRow(int rows, const std::string& text) {
  return absl::StrCat(kSave, "\033[", rows, ";1H\033[2K", text, kRestore);
}

std::string GiveRow(int rows) {
  return absl::StrCat(kSave, "\033[r\033[", rows, ";1H\033[2K", kRestore);
}

class RealSink final : public ProgressSink {
 public:
  std::optional<Size> TerminalSize() override {
    const char* const terminal = std::getenv("TERM");
    if (isatty(STDERR_FILENO) == 0 || terminal == nullptr ||
        *terminal == '\0' || std::string_view(terminal) == "dumb") {
      return std::nullopt;
    }
    winsize size = {};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_row < kLeastRows) {
      return std::nullopt;
    }
    return Size{size.ws_row, size.ws_col};
  }

  std::optional<Bytes> FileSize() override {
    struct stat facts = {};
    if (fstat(STDERR_FILENO, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return std::nullopt;
    }
    return Bytes{facts.st_size};
  }

  void Write(const std::string& text) override {
    const bool is_terminal = isatty(STDERR_FILENO) != 0;
    if (is_terminal && tcgetpgrp(STDERR_FILENO) != getpgrp()) return;
    // A terminal that is stopped, or a reader that does not read, must not stop
    // the program.
    pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t size =
          write(STDERR_FILENO, text.data() + done, text.size() - done);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;
      done += static_cast<size_t>(size);
    }
  }
};

}  // namespace

std::string ProgressLine(const ProgressFacts& facts) {
  return absl::StrCat(
      "ebbtide: step ", facts.step, ", peak ", FormatSize(facts.peak),
      Count(facts.budget) < 0 ? std::string()
                              : absl::StrCat(" of ", FormatSize(facts.budget)),
      absl::StrFormat(", %.1f ms, ", 1e3 * facts.seconds), facts.state);
}

ProgressSink& StandardError() {
  static RealSink& sink = *new RealSink;
  return sink;
}

Progress::Progress(ProgressSink* sink, bool every_step)
    : sink_(*sink),
      every_step_(every_step),
      is_terminal_(sink_.TerminalSize().has_value()) {}

void Progress::Show(double now, const ProgressFacts& facts) {
  if (next_ == kNever) return;
  const std::string line = ProgressLine(facts);
  if (is_terminal_) {
    next_ = now + kOnTerminal;
    return Draw(line);
  }
  if (every_step_) return sink_.Write(line + "\n");
  ShowInLog(now, line);
}

void Progress::ShowInLog(double now, const std::string& line) {
  const auto size = sink_.FileSize();
  // The first step begins the first interval.
  const bool is_first = interval_ == 0;
  if (!is_first && size && size == file_size_) sink_.Write(line + "\n");
  file_size_ = sink_.FileSize();
  interval_ = is_first ? kFirstInLog : std::min(2 * interval_, kLongestInLog);
  next_ = now + interval_;
}

void Progress::Draw(const std::string& line) {
  const auto size = sink_.TerminalSize();
  if (!size) return;
  std::string text;
  if (row_ != size) {
    if (row_) text = GiveRow(row_->rows);
    text += TakeRow(size->rows);
    row_ = size;
  }
  const size_t width = std::max(size->columns - 1, 0);
  sink_.Write(text + AtRow(size->rows, line.substr(0, width)));
}

void Progress::Close() {
  if (row_ && next_ != kNever) sink_.Write(GiveRow(row_->rows));
  next_ = kNever;
}

}  // namespace ebbtide
