// Fills tables of functions that are looked up at run time.
#ifndef EBBTIDE_PROFILER_FUNCTION_FINDER_H_
#define EBBTIDE_PROFILER_FUNCTION_FINDER_H_

#include <dlfcn.h>

#include <functional>
#include <utility>

namespace ebbtide {

// Finds functions by name and remembers the first that is missing.
class FunctionFinder {
 public:
  using LookUp = std::function<void*(const char* name)>;  // or nullptr

  explicit FunctionFinder(LookUp look_up) : look_up_(std::move(look_up)) {}
  // In a library that dlopen returned.
  explicit FunctionFinder(void* library)
      : look_up_([library](const char* name) { return dlsym(library, name); }) {
  }

  template <typename Function>
  void Find(const char* name, Function** function) {
    void* const found = look_up_(name);
    if (found == nullptr && missing_ == nullptr) missing_ = name;
    *function = reinterpret_cast<Function*>(found);
  }
  const char* missing() const { return missing_; }

 private:
  const LookUp look_up_;
  const char* missing_ = nullptr;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_FUNCTION_FINDER_H_
