// The plain C interface through which Python and the preload library reach the
// core. No exception leaves it.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "hooks/cpu_device.h"
#include "hooks/cuda_start.h"
#include "hooks/job_curve.h"
#include "hooks/parameter_names.h"
#include "hooks/rank.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "hooks/settings.h"

namespace {

void PrintClosingLine() {
  static std::atomic<bool> is_over = false;
  if (is_over.exchange(true)) return;
  try {
    const std::string line = ebbtide::Runtime::Global().Finish();
    if (!line.empty()) std::fprintf(stderr, "%s\n", line.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbtide: no closing line: %s\n", error.what());
  }
}

// True if another core of ebbtide is loaded in this process.
bool IsSecondCopy() {
  static const char here = 0;
  Dl_info own = {};
  if (dladdr(&here, &own) == 0) return false;
  const auto is_another = [](dl_phdr_info* loaded, size_t, void* own_base) {
    const absl::string_view path = loaded->dlpi_name;
    const bool is_core = absl::EndsWith(path, "/libebbtide.so") ||
                         absl::EndsWith(path, "/libebbtide_cuda.so");
    return is_core && reinterpret_cast<void*>(loaded->dlpi_addr) != own_base
               ? 1
               : 0;
  };
  return dl_iterate_phdr(is_another, own.dli_fbase) != 0;
}

// Passes a question of Python about a storage (a c10::StorageImpl*) to the
// runtime and returns its answer.
template <typename Tell>
int Ask(void* storage, Tell tell) {
  try {
    return tell(&ebbtide::Runtime::Global(),
                static_cast<c10::StorageImpl*>(storage))
               ? 1
               : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbtide: %s\n", error.what());
    return 0;
  }
}

// Once for all ranks, which have one environment.
int Refuse(const std::string& why) {
  if (ebbtide::RankOfProcess().value_or(0) > 0) return 1;
  std::fprintf(stderr, "ebbtide: off: %s\n", why.c_str());
  return 1;
}

}  // namespace

extern "C" {

// Starts ebbtide as the environment says. 0: started, or nothing asked for;
// 1: refused, one line printed. `origin` names who asks, for that line.
__attribute__((visibility("default"))) int ebbtide_start(const char* origin) {
  try {
    static bool started = false;
    if (started) return 0;
    auto settings = ebbtide::SettingsFromEnvironment();
    if (!settings.ok()) {
      return Refuse(std::string(settings.status().message()));
    }
    ebbtide::Device::Use(&ebbtide::CpuDevice::Global());
    if (!ebbtide::HasWork(*settings)) return 0;
    if (IsSecondCopy()) {
      return Refuse("another copy of ebbtide is already in this process (" +
                    std::string(origin) + ")");
    }
    // For the processes that this one starts.
    setenv("EBBTIDE_LOADED_PID", std::to_string(getpid()).c_str(), 1);
    const absl::Status status = ebbtide::Runtime::Global().Start(*settings);
    if (!status.ok()) return Refuse(std::string(status.message()));
    ebbtide::StartCuda(*settings);
    started = true;
    std::atexit(&PrintClosingLine);
    return 0;
  } catch (const std::exception& error) {
    return Refuse(error.what());
  }
}

// Steps aside for good; `why` is said in one line.
__attribute__((visibility("default"))) void ebbtide_turn_off(const char* why) {
  const ebbtide::RuntimeLock lock;
  ebbtide::Runtime::Global().TurnOff(why);
}

// The end of a process that ends without its exit handlers, as children of fork
// do in Python: the closing line and the report.
__attribute__((visibility("default"))) void ebbtide_finish() {
  PrintClosingLine();
}

// The report so far as JSON, to be freed with ebbtide_free_report; nullptr
// where nothing runs.
__attribute__((visibility("default"))) char* ebbtide_report() {
  try {
    return strdup(ebbtide::Runtime::Global().Report().c_str());
  } catch (const std::exception&) {
    return nullptr;
  }
}

__attribute__((visibility("default"))) void ebbtide_free_report(char* report) {
  std::free(report);
}

// The budgets that are held, as ebbtide_report; nullptr where nothing runs.
__attribute__((visibility("default"))) char* ebbtide_budgets() {
  try {
    return strdup(ebbtide::Runtime::Global().Budgets().c_str());
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Returns the bytes that the budget of the current device still allows, see
// Runtime::RoomLeft.
__attribute__((visibility("default"))) int64_t ebbtide_room() {
  try {
    return ebbtide::Count(ebbtide::Runtime::Global().RoomLeft());
  } catch (const std::exception&) {
    return 0;
  }
}

// Changes them (hooks/runtime.h). nullptr: done; else why not, to be freed with
// ebbtide_free_report, beginning with "V" where the text is to blame and with
// "R" where the run is.
__attribute__((visibility("default"))) char* ebbtide_change_budgets(
    const char* text) {
  try {
    const absl::Status changed = ebbtide::Runtime::Global().ChangeBudgets(text);
    if (changed.ok()) return nullptr;
    const char* const blame = absl::IsInvalidArgument(changed) ? "V" : "R";
    return strdup(absl::StrCat(blame, changed.message()).c_str());
  } catch (const std::exception& error) {
    return strdup(absl::StrCat("R", error.what()).c_str());
  }
}

// Step time against budget, as JSON, to be freed as the others; takes `seconds`
// for each of the ways that there are. {"why":..} where there is none.
__attribute__((visibility("default"))) char* ebbtide_curve(double seconds) {
  try {
    return strdup(
        ebbtide::CurveToJson(ebbtide::Runtime::Global().LastProfile().get(),
                             absl::Seconds(seconds))
            .c_str());
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Blocks until the trace has met a parameter without a name, as ever new ones.
__attribute__((visibility("default"))) void ebbtide_await_nameless() {
  ebbtide::AwaitNameless();
}

// The parameter (a c10::TensorImpl*) is called so, "h.3.mlp.c_fc.weight".
__attribute__((visibility("default"))) void ebbtide_name_parameter(
    void* tensor, const char* name) {
  try {
    const auto parameter =
        c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(
            static_cast<c10::TensorImpl*>(tensor));
    ebbtide::RunLog::Global().NameParameter(at::Tensor(parameter), name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbtide: %s\n", error.what());
  }
}

// Python is about to have the address of the storage: it stays from now on.
__attribute__((visibility("default"))) void ebbtide_expose(void* storage) {
  Ask(storage, [](ebbtide::Runtime* runtime, c10::StorageImpl* bytes) {
    runtime->ExposeWeight(bytes);
    return true;
  });
}

// Python is about to read the bytes. Nonzero: they stay until it says, by the
// other call, that it has.
__attribute__((visibility("default"))) int ebbtide_hold(void* storage) {
  return Ask(storage, [](ebbtide::Runtime* runtime, c10::StorageImpl* bytes) {
    return runtime->HoldWeight(bytes);
  });
}
__attribute__((visibility("default"))) void ebbtide_release(void* storage) {
  Ask(storage, [](ebbtide::Runtime* runtime, c10::StorageImpl* bytes) {
    runtime->ReleaseWeight(bytes);
    return true;
  });
}

// Nonzero for a storage whose bytes may be elsewhere, now or later.
__attribute__((visibility("default"))) int ebbtide_moves(void* storage) {
  return Ask(storage, [](ebbtide::Runtime* runtime, c10::StorageImpl* bytes) {
    return runtime->IsWeight(bytes);
  });
}

}  // extern "C"
