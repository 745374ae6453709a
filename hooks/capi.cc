// The plain C interface through which Python and the preload library reach the
// core. No exception leaves it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "hooks/cpu_device.h"
#include "hooks/cuda_start.h"
#include "hooks/runtime.h"
#include "hooks/settings.h"

namespace {

void PrintClosingLine() {
  try {
    const std::string line = ebbtide::Runtime::Global().Finish();
    if (!line.empty()) std::fprintf(stderr, "%s\n", line.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbtide: no closing line: %s\n", error.what());
  }
}

// What Python says of a storage (a c10::StorageImpl*), and what the runtime
// answers.
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

int Refuse(const std::string& why) {
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
    // A second copy of the library in the process finds the first one's mark.
    if (std::getenv("EBBTIDE_LOADED_PID") != nullptr &&
        std::getenv("EBBTIDE_LOADED_PID") == std::to_string(getpid())) {
      return Refuse("another copy of ebbtide is already in this process (" +
                    std::string(origin) + ")");
    }
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
