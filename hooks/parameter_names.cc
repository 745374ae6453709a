#include "hooks/parameter_names.h"

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace ebbtide {
namespace {

struct Names {
  absl::Mutex mutex;
  absl::flat_hash_map<const void*, ParameterName> by_storage
      ABSL_GUARDED_BY(mutex);
  bool has_nameless ABSL_GUARDED_BY(mutex) = false;
};

// Leaked: a thread waits for it until the process ends.
Names& TheNames() {
  static Names& names = *new Names;
  return names;
}

}  // namespace

void NameParameter(const void* parameter, ParameterName name) {
  Names& names = TheNames();
  absl::MutexLock lock(&names.mutex);
  names.by_storage[parameter] = name;
}

ParameterName NameOfParameter(const void* parameter) {
  Names& names = TheNames();
  absl::MutexLock lock(&names.mutex);
  const auto [found, is_new] = names.by_storage.try_emplace(parameter);
  if (is_new) names.has_nameless = true;
  return found->second;
}

void AwaitNameless() {
  Names& names = TheNames();
  absl::MutexLock lock(&names.mutex);
  names.mutex.Await(absl::Condition(&names.has_nameless));
  names.has_nameless = false;
}

}  // namespace ebbtide
