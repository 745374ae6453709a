// Threads that serve a training program in the background.
#ifndef EBBTIDE_PROFILER_DETACHED_THREAD_H_
#define EBBTIDE_PROFILER_DETACHED_THREAD_H_

#include <functional>
#include <string>

namespace ebbtide {

// Runs `body` on a new thread that takes no signals, which are the program's,
// and that is never joined, so that it never delays the process's exit; `body`
// must own what it uses. The name shows in tools, 15 characters of it. False if
// the system refuses a thread.
bool StartDetachedThread(std::string name, std::function<void()> body);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_DETACHED_THREAD_H_
