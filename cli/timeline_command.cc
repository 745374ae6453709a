// ebbtide timeline RUN.ebbtide [-o OUT.{html,json,pickle}]
// ebbtide timeline A.ebbtide B.ebbtide [-o OUT.html]
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/timeline_page.h"
#include "profiler/chrome_trace.h"
#include "profiler/explanation.h"
#include "profiler/snapshot.h"
#include "profiler/timeline.h"
#include "profiler/timeline_json.h"
#include "profiler/timeline_plan.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::vector<std::string> inputs;  // one or two
  std::string output;
};

// A page without an explanation is a page still.
std::string ExplanationOf(const TraceSource& source) {
  const auto explanation = ExplainRun(source, "its profile");
  if (explanation.ok()) return ExplanationToJson(*explanation);
  PrintError(absl::StrCat("the page explains nothing: ",
                          explanation.status().message()));
  return "null";
}

void WriteWithData(absl::string_view page, const std::string& data,
                   std::ostream& out) {
  constexpr absl::string_view kData = "/*DATA*/";
  const size_t at = page.find(kData);
  out << page.substr(0, at) << data << page.substr(at + kData.size());
}

absl::Status WritePage(const TraceSource& source, std::ostream& out) {
  const absl::StatusOr<Timeline> timeline = MakeTimeline(source);
  if (!timeline.ok()) return timeline.status();
  WriteWithData(
      kTimelinePage,
      TimelineToJson(*timeline, ComparePlans(timeline->profile, timeline->plan),
                     ExplanationOf(source)),
      out);
  return absl::OkStatus();
}

// True if the file can be replaced unasked: there is none, or a page of ours.
bool IsFree(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return true;
  std::string head(1024, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return absl::StrContains(head, "<title>ebbtide timeline</title>");
}

// The format that the ending of `-o` selects.
struct Format {
  absl::string_view ending;
  absl::Status (*write)(const TraceSource&, std::ostream&);
};
constexpr Format kFormats[] = {
    {".html", &WritePage},
    {".json", [](const TraceSource& source,
                 std::ostream& out) { return WriteChromeTrace(source, out); }},
    {".pickle", &WriteSnapshot}};

struct Input {
  std::string path;
  TraceSource source;
};

// Says what of the trace is shown where it is not all.
absl::StatusOr<Input> Open(const std::string& path) {
  Input input = {path, [path](TraceVisitor& visitor) {
                   return VisitTrace(path, visitor);
                 }};
  TraceVisitor nobody;
  const auto end = input.source(nobody);
  if (!end.ok()) return end.status();
  if (!end->damage.empty()) {
    PrintError(
        absl::StrCat(path, ": ", end->damage, "; what precedes it is shown"));
  }
  return input;
}

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

// A comparison shows curves and steps, and not every event.
absl::Status WriteComparison(const std::vector<Input>& inputs,
                             std::ostream& out) {
  std::vector<NamedTimeline> runs;
  for (const Input& input : inputs) {
    auto timeline = MakeTimeline(
        input.source,
        {.points = 20'000, .detail = 0, .blocks = 0, .intervals = 1});
    if (!timeline.ok()) return In(input.path, timeline.status());
    runs.push_back({input.path, *std::move(timeline)});
  }
  WriteWithData(kComparisonPage, TimelinesToJson(runs), out);
  return absl::OkStatus();
}

absl::Status Write(const Arguments& arguments, const Format& format) {
  // Nothing is written over where there is nothing to show.
  std::vector<Input> inputs;
  for (const std::string& path : arguments.inputs) {
    auto input = Open(path);
    if (!input.ok()) return input.status();
    inputs.push_back(*std::move(input));
  }
  const auto cannot_write = [&](int error) {
    return absl::ErrnoToStatus(
        error, absl::StrCat(arguments.output, ": cannot write"));
  };
  // The existing file stays until the new one is complete.
  const std::string part = arguments.output + ".part";
  std::ofstream out(part, std::ios::binary);
  if (!out) return cannot_write(errno);
  const absl::Status written =
      inputs.size() > 1
          ? WriteComparison(inputs, out)
          : In(inputs[0].path, format.write(inputs[0].source, out));
  out.close();
  std::error_code error;
  if (!written.ok()) {
    std::filesystem::remove(part, error);
    return written;
  }
  if (out) std::filesystem::rename(part, arguments.output, error);
  if (!out || error) return cannot_write(error ? error.value() : errno);
  return absl::OkStatus();
}

// Beside the first trace.
absl::StatusOr<std::string> DefaultOutput(
    const std::vector<std::string>& inputs) {
  std::filesystem::path path = inputs[0];
  path.replace_extension();
  for (size_t i = 1; i < inputs.size(); ++i) {
    path += "-" + std::filesystem::path(inputs[i]).stem().string();
  }
  path += ".html";
  if (IsFree(path)) return path.string();
  return absl::AlreadyExistsError(
      absl::StrCat(path.string(),
                   ": there already, and no page of ebbtide timeline; name "
                   "another with -o"));
}

Exit Run(Arguments arguments) {
  const bool is_named = !arguments.output.empty();
  if (!is_named) {
    auto output = DefaultOutput(arguments.inputs);
    if (!output.ok()) return ExitFor(output.status());
    arguments.output = *std::move(output);
  }
  const size_t formats = arguments.inputs.size() > 1 ? 1 : std::size(kFormats);
  for (const Format& format : absl::MakeSpan(kFormats, formats)) {
    if (!absl::EndsWith(arguments.output, format.ending)) continue;
    const absl::Status written = Write(arguments, format);
    if (!written.ok()) return ExitFor(written);
    if (!is_named) std::printf("%s\n", arguments.output.c_str());
    return Exit::kDone;
  }
  PrintError(absl::StrCat("-o ", arguments.output,
                          ": expected a name that ends in .html (a page)",
                          formats == 1 ? ", for two runs"
                                       : ", .json (for Perfetto and "
                                         "chrome://tracing) or .pickle (for "
                                         "memory_viz)"));
  return Exit::kUsage;
}

}  // namespace

void AddTimelineCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "timeline", "What was alive in a run, when, and what was done to it");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("run", arguments->inputs,
                   "A trace from run --record, or two to compare")
      ->required()
      ->expected(1, 2)
      ->type_name("RUN.ebbtide");
  command
      ->add_option("-o", arguments->output,
                   "A page, a trace, or a snapshot to open; default: a page "
                   "beside RUN.ebbtide")
      ->type_name("OUT.{html,json,pickle}");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
