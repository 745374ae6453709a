#include "cli/driver_view.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ebbtide {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr unsigned kPatience = 60;  // seconds

// The driver's own types; no header of CUDA is needed to build this program.
using Result = int;
using Init = Result (*)(unsigned flags);
using GetVersion = Result (*)(int* version);
using GetCount = Result (*)(int* count);
using GetAttribute = Result (*)(int* value, int attribute, int device);
using GetErrorName = Result (*)(Result result, const char** name);

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string FileOf(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || *map->l_name == '\0') {
    return kLibrary;
  }
  std::error_code error;
  const auto file = std::filesystem::canonical(map->l_name, error);
  return error ? map->l_name : file.string();
}

// "cuInit failed with CUDA_ERROR_NO_DEVICE (100)".
std::string Failure(void* library, Result result) {
  const char* name = nullptr;
  const auto name_of = Find<GetErrorName>(library, "cuGetErrorName");
  if (name_of == nullptr || name_of(result, &name) != 0) name = nullptr;
  return name == nullptr
             ? absl::StrCat("cuInit failed with error ", result)
             : absl::StrCat("cuInit failed with ", name, " (", result, ")");
}

// Devices without CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
int64_t CountWithoutPages(void* library) {
  constexpr int kAttribute = 102;
  const auto count_of = Find<GetCount>(library, "cuDeviceGetCount");
  const auto get = Find<GetAttribute>(library, "cuDeviceGetAttribute");
  int devices = 0;
  if (count_of == nullptr || get == nullptr || count_of(&devices) != 0) {
    return 0;
  }
  int64_t without = 0;
  for (int device = 0; device < devices; ++device) {
    int has_pages = 0;
    if (get(&has_pages, kAttribute, device) != 0 || has_pages == 0) ++without;
  }
  return without;
}

DriverView LookHere() {
  void* const library = dlopen(kLibrary, RTLD_NOW);
  if (library == nullptr) return {.problem = dlerror()};
  DriverView view = {.file = FileOf(library)};
  const auto init = Find<Init>(library, "cuInit");
  if (init == nullptr) {
    view.problem = "it has no cuInit";
    return view;
  }
  if (const Result result = init(0); result != 0) {
    view.problem = Failure(library, result);
  } else {
    view.without_pages = CountWithoutPages(library);
  }
  int version = 0;
  const auto get = Find<GetVersion>(library, "cuDriverGetVersion");
  if (get != nullptr && get(&version) == 0) view.version = version;
  return view;
}

// Fields of the view, between zeros.
void Tell(int file, const DriverView& view) {
  const std::string text = absl::StrCat(
      view.file, std::string(1, '\0'), view.problem, std::string(1, '\0'),
      view.version, std::string(1, '\0'), view.without_pages);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

std::string ReadAll(int file) {
  std::string text;
  for (;;) {
    char part[4096];
    const ssize_t n = read(file, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(part, static_cast<size_t>(n));
  }
}

DriverView ViewOf(const std::string& text, int status) {
  const std::vector<std::string> fields = absl::StrSplit(text, '\0');
  DriverView view = {.file = kLibrary};
  if (fields.size() == 4 && absl::SimpleAtoi(fields[2], &view.version) &&
      absl::SimpleAtoi(fields[3], &view.without_pages)) {
    view.file = fields[0];
    view.problem = fields[1];
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    view.problem =
        absl::StrCat("it does not start within ", kPatience, " seconds");
  } else {
    view.problem =
        WIFSIGNALED(status)
            ? absl::StrCat("its start ended by signal ", WTERMSIG(status))
            : std::string("its start ended the process");
  }
  return view;
}

}  // namespace

DriverView LookAtDriver() {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) return {.problem = std::strerror(errno)};
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    Tell(ends[1], LookHere());
    _exit(0);
  }
  const std::string failure = child < 0 ? std::strerror(errno) : "";
  close(ends[1]);
  const std::string text = ReadAll(ends[0]);
  close(ends[0]);
  if (child < 0) return {.problem = failure};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ViewOf(text, status);
}

}  // namespace ebbtide
