#include "cli/input.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "planner/json_reader.h"
#include "profiler/trace_format.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // An empty file leaves `text` failed, but is readable.
  if (!file.is_open() || file.bad() || errno != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a readable file: ",
                     errno != 0 ? std::strerror(errno) : "read failed"));
  }
  return text.str();
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a writable file: ",
                   errno != 0 ? std::strerror(errno) : "write failed"));
}

namespace {

// The profile of a recorded run; of several signatures, the last one's.
class LastProfile final : public TraceVisitor {
 public:
  void OnText(TraceText text) override {
    if (text.kind == TextKind::kProfile) profile = std::move(text.text);
  }
  std::string profile;
};

absl::StatusOr<std::string> ProfileOf(const std::string& path) {
  LastProfile last;
  const auto end = VisitTrace(path, last);
  if (!end.ok()) return end.status();
  if (!last.profile.empty()) return std::move(last.profile);
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": expected a run with a repeated step: there is no profile in it"));
}

}  // namespace

// Without reading all of it: traces are long.
absl::StatusOr<bool> IsTrace(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string begin(std::strlen(trace_format::kMagic), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (!file.is_open() || errno != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a readable file: ",
                     errno != 0 ? std::strerror(errno) : "read failed"));
  }
  return begin == trace_format::kMagic;
}

absl::StatusOr<Input> ReadInput(const std::string& path) {
  const absl::StatusOr<bool> is_trace = IsTrace(path);
  if (!is_trace.ok()) return is_trace.status();
  const absl::StatusOr<std::string> text =
      *is_trace ? ProfileOf(path) : ReadFile(path);
  if (!text.ok()) return text.status();
  const absl::Status other_kind = absl::InvalidArgumentError(absl::StrCat(
      path,
      ": expected a run that `ebbtide run --record` wrote, or the JSON of a "
      "profile or a chain"));
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(*text);
  if (!absl::StartsWith(begin, "{")) return other_kind;
  absl::StatusOr<nlohmann::json> json = ParseJson(*text, path);
  if (!json.ok()) return json.status();
  if (!json->contains("kind")) return other_kind;
  JsonReader reader(path);
  std::string kind;
  reader.String(*json, "kind", &kind);
  if (!reader.ok()) return reader.status();
  if (kind == "chain") return ChainFromJson(*text, path);
  if (kind == "profile") return ProfileFromJson(*text, path);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": kind: expected \"chain\" or \"profile\", got \"", kind, "\""));
}

void AddThreadsOption(CLI::App* command, int* threads) {
  command->add_option("--threads", *threads, "For chains")
      ->check(CLI::Range(1, 64));
}

absl::Status CheckThreads(const Input& input, int threads) {
  if (threads == 1 || std::holds_alternative<Chain>(input)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--threads: expected 1 for a profile, got ", threads));
}

}  // namespace ebbtide
