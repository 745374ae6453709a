// Fills tables of the functions of a library that is resolved at run time.
#ifndef EBBTIDE_PROFILER_FUNCTION_FINDER_H_
#define EBBTIDE_PROFILER_FUNCTION_FINDER_H_

#include <dlfcn.h>

namespace ebbtide {

// Finds functions by name and remembers the first that is missing.
class FunctionFinder {
 public:
  explicit FunctionFinder(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* name, Function** function) {
    void* const found = dlsym(library_, name);
    if (found == nullptr && missing_ == nullptr) missing_ = name;
    *function = reinterpret_cast<Function*>(found);
  }
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_FUNCTION_FINDER_H_
