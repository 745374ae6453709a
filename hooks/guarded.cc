#include "hooks/guarded.h"

#include <atomic>
#include <mutex>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {
namespace {

struct Guarded {
  std::mutex mutex;
  absl::flat_hash_map<const void*, int> blocks;
  // Size of `blocks`: most frees of most programs skip the look-up.
  std::atomic<int> count = 0;
  void (*rescue)(void* block) = nullptr;
};

Guarded& All() {
  static Guarded& guarded = *new Guarded;
  return guarded;
}

}  // namespace

void InstallGuard(void (*rescue)(void* block)) { All().rescue = rescue; }

void BeforeFree(void* block) {
  Guarded& all = All();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.blocks.contains(block)) return;
  }
  all.rescue(block);
}

void Guard(const void* block) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (++All().blocks[block] == 1) ++All().count;
}

void Unguard(const void* block) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  const auto found = All().blocks.find(block);
  if (--found->second > 0) return;
  All().blocks.erase(found);
  --All().count;
}

void LockGuardForFork() { All().mutex.lock(); }
void UnlockGuardAfterFork() { All().mutex.unlock(); }

}  // namespace ebbtide
