#include "hooks/runtime_lock.h"

#include <dlfcn.h>

namespace ebbtide {
namespace {

template <typename Function>
void Find(const char* name, Function* function) {
  *reinterpret_cast<void**>(function) = dlsym(RTLD_DEFAULT, name);
}

// The interpreter of the process, if it has one: a C++ program has not, and we
// are linked to none.
struct Interpreter {
  Interpreter() {
    Find("Py_IsInitialized", &is_initialized);
    Find("PyGILState_Check", &is_held);
    Find("PyEval_SaveThread", &let_go);
    Find("PyEval_RestoreThread", &take_back);
  }
  bool IsHeld() const {
    return is_initialized != nullptr && is_held != nullptr &&
           let_go != nullptr && take_back != nullptr && is_initialized() != 0 &&
           is_held() != 0;
  }

  int (*is_initialized)() = nullptr;
  int (*is_held)() = nullptr;
  void* (*let_go)() = nullptr;
  void (*take_back)(void* thread) = nullptr;
};

const Interpreter& TheInterpreter() {
  static const Interpreter interpreter;
  return interpreter;
}

// Releases the interpreter's lock, if this thread has it, for its scope.
class WithoutInterpreter {
 public:
  WithoutInterpreter()
      : thread_(TheInterpreter().IsHeld() ? TheInterpreter().let_go()
                                          : nullptr) {}
  // Waits for the interpreter with the runtime's lock held. Another thread that
  // holds the interpreter and waits for the runtime's lock releases the
  // interpreter, or waits with a time limit.
  ~WithoutInterpreter() {
    if (thread_ != nullptr) TheInterpreter().take_back(thread_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  void* const thread_;
};

}  // namespace

void RuntimeLock::Acquire() {
  if (Mutex().try_lock()) return;
  const WithoutInterpreter waiting;
  Mutex().lock();
}

std::unique_lock<std::recursive_timed_mutex> RuntimeLock::TryAcquire(
    std::chrono::milliseconds patience) {
  return std::unique_lock<std::recursive_timed_mutex>(Mutex(), patience);
}

}  // namespace ebbtide
