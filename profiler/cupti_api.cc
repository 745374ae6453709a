#include "profiler/cupti_api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "profiler/function_finder.h"

namespace ebbtide {
namespace {

constexpr char kName[] = "libcupti.so.13";

const char* FindAll(void* library, CuptiApi* api) {
  FunctionFinder in(library);
  in.Find("cuptiGetVersion", &api->get_version);
  in.Find("cuptiGetResultString", &api->get_result_string);
  in.Find("cuptiSubscribe", &api->subscribe);
  in.Find("cuptiUnsubscribe", &api->unsubscribe);
  in.Find("cuptiActivityRegisterCallbacks", &api->activity_register_callbacks);
  in.Find("cuptiActivityEnable", &api->activity_enable);
  in.Find("cuptiActivityDisable", &api->activity_disable);
  in.Find("cuptiActivityEnableRuntimeApi", &api->activity_enable_runtime_api);
  in.Find("cuptiActivityEnableDriverApi", &api->activity_enable_driver_api);
  in.Find("cuptiActivityPushExternalCorrelationId",
          &api->activity_push_external_correlation_id);
  in.Find("cuptiActivityPopExternalCorrelationId",
          &api->activity_pop_external_correlation_id);
  in.Find("cuptiActivityFlushAll", &api->activity_flush_all);
  in.Find("cuptiActivityGetNextRecord", &api->activity_get_next_record);
  in.Find("cuptiActivityGetNumDroppedRecords",
          &api->activity_get_num_dropped_records);
  in.Find("cuptiActivityGetAttribute", &api->activity_get_attribute);
  in.Find("cuptiActivitySetAttribute", &api->activity_set_attribute);
  return in.missing();
}

std::string FileName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Called for each loaded library until it returns another value than 0.
int NoteOtherVersion(dl_phdr_info* library, size_t, void* other) {
  const std::string file =
      FileName(library->dlpi_name == nullptr ? "" : library->dlpi_name);
  if (!absl::StartsWith(file, "libcupti.so.")) return 0;
  if (file == kName || absl::StartsWith(file, absl::StrCat(kName, "."))) {
    return 0;
  }
  *static_cast<std::string*>(other) = library->dlpi_name;
  return 1;
}

// The folder that the loaded library of that name is in, or nothing.
std::string FolderOf(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "";
  const link_map* map = nullptr;
  std::string folder;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    const std::string path = map->l_name;
    folder = path.substr(0, path.rfind('/') + 1);
  }
  dlclose(library);
  return folder;
}

// Where it may lie, the best first.
std::vector<std::string> Places() {
  std::vector<std::string> places;
  const std::string wheel = FolderOf("libcudart.so.13");
  if (!wheel.empty()) places.push_back(wheel);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) {
      places.push_back(absl::StrCat(root, "/extras/CUPTI/lib64/"));
    }
  }
  places.emplace_back("/usr/local/cuda/extras/CUPTI/lib64/");
  places.emplace_back("");  // where the loader looks
  return places;
}

void* OpenCupti() {
  // The library may be loaded already, from anywhere.
  if (void* const library = dlopen(kName, RTLD_NOW | RTLD_NOLOAD)) {
    return library;
  }
  for (const std::string& place : Places()) {
    const std::string path = place + kName;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<const CuptiApi*> CuptiApi::Loaded() {
  static std::mutex mutex;
  static const CuptiApi* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) {
    return absl::FailedPreconditionError(
        "CUPTI: no CUDA driver is loaded (libcuda.so.1)");
  }
  dlclose(driver);
  std::string other;
  dl_iterate_phdr(&NoteOtherVersion, &other);
  if (!other.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUPTI: another version is loaded: ", other));
  }
  // Held for ever: who unloads CUPTI must not take these along.
  void* const library = OpenCupti();
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUPTI: there is no ", kName));
  }
  CuptiApi api = {};
  if (const char* missing = FindAll(library, &api)) {
    dlclose(library);
    return absl::FailedPreconditionError(
        absl::StrCat("CUPTI: ", kName, " has no ", missing));
  }
  return loaded = new CuptiApi(api);
}

absl::Status CuptiStatus(const CuptiApi& api, CuptiResult result,
                         const char* call) {
  if (result == kCuptiSuccess) return absl::OkStatus();
  const char* text = nullptr;
  if (api.get_result_string(result, &text) != kCuptiSuccess ||
      text == nullptr) {
    text = "an error without a name";
  }
  return absl::Status(result == kCuptiMultipleSubscribers
                          ? absl::StatusCode::kFailedPrecondition
                          : absl::StatusCode::kUnavailable,
                      absl::StrCat(call, ": ", text, " (", result, ")"));
}

}  // namespace ebbtide
