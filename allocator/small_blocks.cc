#include "allocator/small_blocks.h"

#include <malloc.h>
#include <pthread.h>

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

namespace ebbtide {
namespace {

constexpr size_t kAlignment = 64;

struct Kept {  // lies in the block itself
  Kept* next = nullptr;
};

struct Cache {
  struct Size {  // blocks of at least one number of times kAlignment bytes
    Kept* first = nullptr;
    size_t count = 0;
  };
  std::array<Size, kLargestKept / kAlignment + 1> sizes;
};

// The cache of this thread. A pointer, because little room is left for the
// thread-local data of libraries that are opened late.
[[gnu::tls_model("initial-exec")]] thread_local Cache* cache = nullptr;
// Its cache is gone, or there was no memory for one.
[[gnu::tls_model("initial-exec")]] thread_local bool without = false;

void EndThread(void* ending) {
  cache = nullptr;
  without = true;
  auto* const ended = static_cast<Cache*>(ending);
  for (Cache::Size& size : ended->sizes) {
    while (size.first != nullptr) {
      Kept* const block = size.first;
      size.first = block->next;
      free(block);
    }
  }
  delete ended;
}

// nullptr where the thread has to do without.
Cache* MakeCache() {
  if (without) return nullptr;
  static const auto key = [] {
    pthread_key_t made = 0;
    const bool ok = pthread_key_create(&made, &EndThread) == 0;
    return std::pair{ok, made};
  }();
  Cache* const made = key.first ? new (std::nothrow) Cache : nullptr;
  if (made != nullptr && pthread_setspecific(key.second, made) == 0) {
    return cache = made;
  }
  delete made;
  without = true;
  return nullptr;
}

Cache* ThisCache() { return cache != nullptr ? cache : MakeCache(); }

void* FromSystem(size_t size) {
  void* block = nullptr;
  return posix_memalign(&block, kAlignment, size) == 0 ? block : nullptr;
}

}  // namespace

void* AllocateSmallBlock(size_t size) {
  if (size > kLargestKept) return FromSystem(size);
  const size_t units = (size + kAlignment - 1) / kAlignment;
  if (Cache* const mine = ThisCache()) {
    Cache::Size& kept = mine->sizes[units];
    if (Kept* const block = kept.first) {
      kept.first = block->next;
      --kept.count;
      return block;
    }
  }
  return FromSystem(units * kAlignment);
}

size_t UsableBytes(void* block) { return malloc_usable_size(block); }

void FreeSmallBlock(void* block) {
  const size_t units = UsableBytes(block) / kAlignment;
  if (units <= kLargestKept / kAlignment) {
    if (Cache* const mine = ThisCache()) {
      Cache::Size& kept = mine->sizes[units];
      if (kept.count * units * kAlignment < kMostKept) {
        kept.first = new (block) Kept{kept.first};
        ++kept.count;
        return;
      }
    }
  }
  free(block);
}

}  // namespace ebbtide
