#include "hooks/out_of_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

bool WriteAll(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t size = write(file, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    done += static_cast<size_t>(size);
  }
  return true;
}

std::string WriteNew(const std::string& path, const std::string& text) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return "";
  const bool is_written = WriteAll(file, text);
  if (close(file) == 0 && is_written) return path;
  unlink(path.c_str());
  return "";
}

}  // namespace

std::string OutOfMemoryText(const OutOfMemory& what) {
  std::string text = absl::StrCat(
      "ebbtide: out of memory on ", what.device, ": ",
      what.request == Bytes{} ? std::string("what was away did not fit back")
                              : FormatSize(what.request) + " did not fit",
      what.where.empty() ? "" : " in ", what.where, ", in step ", what.step,
      " (", what.state, ")\n", FormatSize(what.live), " were alive",
      Count(what.budget) < 0
          ? std::string()
          : absl::StrCat(", the budget is ", FormatSize(what.budget)),
      "\n\nalive, by kind:\n");
  for (int kind = 0; kind < kKinds; ++kind) {
    if (what.live_by_kind[kind] == Bytes{}) continue;
    absl::StrAppendFormat(&text, "%12s  %s\n",
                          FormatSize(what.live_by_kind[kind]),
                          KindName(static_cast<Kind>(kind)));
  }
  absl::StrAppend(&text, "\nthe largest that were alive:\n");
  for (const OutOfMemory::Block& block : what.largest) {
    absl::StrAppendFormat(
        &text, "%12s  %-10s  %s%s%s\n", FormatSize(block.bytes),
        KindName(block.kind),
        block.op.empty() ? std::string("of no recorded op") : block.op,
        block.held.empty() ? "" : ", ", block.held);
  }
  absl::StrAppend(
      &text, "\nfloor: ",
      what.floor.empty()
          ? "not known; it takes a step that was recorded to its end"
          : what.floor,
      "\n\nwhat would have helped:\n");
  for (const std::string& help : what.helps) {
    absl::StrAppend(&text, "- ", help, "\n");
  }
  return text;
}

std::string WriteOutOfMemory(const OutOfMemory& what,
                             const std::vector<std::string>& folders) {
  const std::string text = OutOfMemoryText(what);
  for (const std::string& folder : folders) {
    std::string path =
        WriteNew(absl::StrCat(folder, "/ebbtide-oom-", getpid(), ".txt"), text);
    if (!path.empty()) return path;
  }
  return "";
}

std::vector<std::string> FoldersForReports(const std::string& report) {
  std::vector<std::string> folders;
  char here[PATH_MAX];
  const bool has_here = getcwd(here, sizeof(here)) != nullptr;
  if (const size_t slash = report.rfind('/'); slash != std::string::npos) {
    folders.push_back(slash == 0 ? "" : report.substr(0, slash));
  } else if (has_here) {
    folders.emplace_back(here);
  }
  if (const char* temporary = std::getenv("TMPDIR")) {
    if (*temporary != '\0') folders.emplace_back(temporary);
  }
  folders.emplace_back("/tmp");
  return folders;
}

}  // namespace ebbtide
