// Progress of a run on standard error: on a terminal, one line that is always
// visible; in a log, a line now and then if the program prints none.
//
// In the middle of a line of the program (a progress bar has no end of one)
// ours would be noise. So a log is a regular file that only ebbtide has written
// to since the last line was due: for a pipe that is not known.
//
// On a terminal the line has the last row to itself, like apt's progress bar:
// the scrolling region is set to the rows above (DECSTBM), so the program's
// output is neither overwritten nor moved, in whatever order. The row is given
// back at the end; a program that is killed leaves it, until `reset`.
//
// Not thread-safe.
#ifndef EBBTIDE_HOOKS_PROGRESS_H_
#define EBBTIDE_HOOKS_PROGRESS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "planner/units.h"

namespace ebbtide {

struct ProgressFacts {
  int64_t step = 0;  // steps that are over
  Bytes peak{};      // peak of the last step
  Bytes budget{-1};  // negative: none
  double seconds = 0;
  const char* state = "";
};

// "ebbtide: step 12, peak 159.92 MiB of 160.00 MiB, 61.2 ms, active"
std::string ProgressLine(const ProgressFacts& facts);

// The seam to standard error; tests have their own.
class ProgressSink {
 public:
  struct Size {
    int rows = 0;
    int columns = 0;
    friend bool operator==(const Size&, const Size&) = default;
  };
  virtual ~ProgressSink() = default;
  // Size of the terminal now; nullopt if it is none or has no rows.
  virtual std::optional<Size> TerminalSize() = 0;
  // Bytes of the file, or nullopt where it is no regular one.
  virtual std::optional<Bytes> FileSize() = 0;
  // Drops the text where writing it would block, or the terminal is another
  // job's at the moment.
  virtual void Write(const std::string& text) = 0;
};
ProgressSink& StandardError();

class Progress {
 public:
  // In a log the first line is due after half a minute, and from then on in
  // intervals that double up to ten minutes. `every_step`: for each step, also
  // between lines of others.
  explicit Progress(ProgressSink* sink, bool every_step = false);

  // A step is over, at that many seconds of a steady clock. One comparison,
  // mostly.
  void OnStep(double now, const ProgressFacts& facts) {
    if (now >= next_) Show(now, facts);
  }
  // Shows the facts at once on a terminal.
  void OnChange(double now, const ProgressFacts& facts) {
    if (is_terminal_) Show(now, facts);
  }
  // Gives the row back. Nothing is shown from now on.
  void Close();
  // In a child of fork: the row is the parent's.
  void Forget() { next_ = kNever; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  void Show(double now, const ProgressFacts& facts);
  void Draw(const std::string& line);
  void ShowInLog(double now, const std::string& line);

  ProgressSink& sink_;
  const bool every_step_;
  const bool is_terminal_;
  double next_ = 0;
  double interval_ = 0;
  std::optional<Bytes> file_size_;         // when a line was last due
  std::optional<ProgressSink::Size> row_;  // as it was set up
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PROGRESS_H_
