// ebbtide timeline RUN.ebbtide -o OUT.{html,json}
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/timeline_page.h"
#include "profiler/chrome_trace.h"
#include "profiler/timeline.h"
#include "profiler/trace.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string output;
};

std::string Page(const Trace& trace) {
  constexpr char kData[] = "/*DATA*/";
  std::string page = kTimelinePage;
  page.replace(page.find(kData), std::strlen(kData),
               TimelineToJson(MakeTimeline(trace)));
  return page;
}

Exit Run(const Arguments& arguments) {
  const bool html = absl::EndsWith(arguments.output, ".html");
  if (!html && !absl::EndsWith(arguments.output, ".json")) {
    PrintError(absl::StrCat("-o ", arguments.output,
                            ": expected a name that ends in .html (a page) or "
                            ".json (for Perfetto and chrome://tracing)"));
    return Exit::kUsage;
  }
  const absl::StatusOr<Trace> trace = ReadTrace(arguments.input);
  if (!trace.ok()) return ExitFor(trace.status());
  if (!trace->damage.empty()) {
    PrintError(absl::StrCat(arguments.input, ": ", trace->damage,
                            "; what precedes it is shown"));
  }
  const absl::Status written =
      WriteFile(arguments.output, html ? Page(*trace) : ToChromeTrace(*trace));
  return written.ok() ? Exit::kDone : ExitFor(written);
}

}  // namespace

void AddTimelineCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "timeline", "What was alive in a run, when, and what was done to it");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->input, "A trace from run --record")
      ->required()
      ->type_name("RUN.ebbtide");
  command->add_option("-o", arguments->output, "A page, or a trace to open")
      ->required()
      ->type_name("OUT.{html,json}");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
