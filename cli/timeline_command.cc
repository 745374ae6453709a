// ebbtide timeline RUN.ebbtide [-o OUT.{html,json,pickle}]
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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
  std::string input;
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

absl::Status WritePage(const TraceSource& source, std::ostream& out) {
  const absl::StatusOr<Timeline> timeline = MakeTimeline(source);
  if (!timeline.ok()) return timeline.status();
  constexpr absl::string_view kData = "/*DATA*/";
  const absl::string_view page = kTimelinePage;
  const size_t at = page.find(kData);
  out << page.substr(0, at)
      << TimelineToJson(*timeline,
                        ComparePlans(timeline->profile, timeline->plan),
                        ExplanationOf(source))
      << page.substr(at + kData.size());
  return absl::OkStatus();
}

// Whether the file can be replaced unasked: there is none, or a page of ours.
bool IsFree(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return true;
  std::string head(1024, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return absl::StrContains(head, "<title>ebbtide timeline</title>");
}

// What `-o` ends in says what is written.
struct Format {
  absl::string_view ending;
  absl::Status (*write)(const TraceSource&, std::ostream&);
};
constexpr Format kFormats[] = {
    {".html", &WritePage},
    {".json", [](const TraceSource& source,
                 std::ostream& out) { return WriteChromeTrace(source, out); }},
    {".pickle", &WriteSnapshot}};

Exit Write(const Arguments& arguments, const Format& format) {
  std::string damage;
  const TraceSource source = [&](TraceVisitor& visitor) {
    auto end = VisitTrace(arguments.input, visitor);
    if (end.ok()) damage = end->damage;
    return end;
  };
  // Nothing is written over where there is nothing to show.
  TraceVisitor nobody;
  if (const auto end = source(nobody); !end.ok()) return ExitFor(end.status());
  if (!damage.empty()) {
    PrintError(absl::StrCat(arguments.input, ": ", damage,
                            "; what precedes it is shown"));
  }
  // What is there stays until the whole of the new file is.
  const std::string part = arguments.output + ".part";
  std::ofstream out(part, std::ios::binary);
  if (!out) {
    return ExitFor(absl::ErrnoToStatus(
        errno, absl::StrCat(arguments.output, ": cannot write")));
  }
  const absl::Status written = format.write(source, out);
  out.close();
  std::error_code error;
  if (!written.ok()) {
    std::filesystem::remove(part, error);
    return ExitFor(
        absl::Status(written.code(),
                     absl::StrCat(arguments.input, ": ", written.message())));
  }
  if (out) std::filesystem::rename(part, arguments.output, error);
  if (!out || error) {
    return ExitFor(
        absl::ErrnoToStatus(error ? error.value() : errno,
                            absl::StrCat(arguments.output, ": cannot write")));
  }
  return Exit::kDone;
}

Exit Run(const Arguments& arguments) {
  for (const Format& format : kFormats) {
    if (absl::EndsWith(arguments.output, format.ending)) {
      return Write(arguments, format);
    }
  }
  PrintError(absl::StrCat("-o ", arguments.output,
                          ": expected a name that ends in .html (a page), "
                          ".json (for Perfetto and chrome://tracing) or "
                          ".pickle (for memory_viz)"));
  return Exit::kUsage;
}

}  // namespace

void AddTimelineCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "timeline", "What was alive in a run, when, and what was done to it");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->input, "A trace from run --record")
      ->required()
      ->type_name("RUN.ebbtide");
  command
      ->add_option("-o", arguments->output,
                   "A page, a trace, or a snapshot to open; default: a page "
                   "beside RUN.ebbtide")
      ->type_name("OUT.{html,json,pickle}");
  command->callback([arguments, exit] {
    const bool is_named = !arguments->output.empty();
    if (!is_named) {
      arguments->output = std::filesystem::path(arguments->input)
                              .replace_extension(".html")
                              .string();
      if (!IsFree(arguments->output)) {
        PrintError(absl::StrCat(arguments->output,
                                ": there already, and no page of ebbtide "
                                "timeline; name another with -o"));
        *exit = Exit::kUsage;
        return;
      }
    }
    *exit = Run(*arguments);
    if (!is_named && *exit == Exit::kDone) {
      std::printf("%s\n", arguments->output.c_str());
    }
  });
}

}  // namespace ebbtide
