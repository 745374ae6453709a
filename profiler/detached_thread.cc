#include "profiler/detached_thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace ebbtide {
namespace {

// A thread inherits the mask it is created under.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

bool StartDetachedThread(std::string name, std::function<void()> body) {
  name.resize(std::min<size_t>(name.size(), 15));
  try {
    BlockSignals scope;
    std::thread([name = std::move(name), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    }).detach();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace ebbtide
