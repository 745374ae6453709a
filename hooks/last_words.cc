#include "hooks/last_words.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

namespace ebbtide {
namespace {

// Owned by whoever takes it out: a handler, which never frees it, or the next
// call of KeepLastWords.
std::atomic<LastWords*> kept = nullptr;
std::atomic<pid_t> keeper = 0;

// Async-signal-safe, as all that it calls. Nothing can be done about an error.
void WriteAll(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

// The disposition is the default again (SA_RESETHAND).
void WriteAndDie(int signal) {
  const LastWords* words =
      keeper == getpid() ? kept.exchange(nullptr) : nullptr;
  if (words != nullptr) {
    WriteAll(STDERR_FILENO, words->line);
    if (!words->file.empty()) {
      const int file = open(words->file.c_str(),
                            O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      if (file >= 0) {
        WriteAll(file, words->report);
        close(file);
      }
    }
  }
  raise(signal);
}

void Handle(int signal) {
  struct sigaction action = {};
  if (sigaction(signal, nullptr, &action) != 0 ||
      action.sa_handler != SIG_DFL) {
    return;
  }
  action.sa_handler = &WriteAndDie;
  action.sa_flags = SA_RESETHAND | SA_NODEFER | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void KeepLastWords(LastWords words) {
  delete kept.exchange(new LastWords(std::move(words)));
  if (keeper.exchange(getpid()) == getpid()) return;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) Handle(signal);
}

void DropLastWords() { delete kept.exchange(nullptr); }

}  // namespace ebbtide
