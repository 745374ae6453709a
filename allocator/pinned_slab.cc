#include "allocator/pinned_slab.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "allocator/mapped_pages.h"
#include "profiler/detached_thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ebbtide {
namespace {

char* RealReserve(size_t size) {
  void* const address =
      mmap(nullptr, size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  if (madvise(address, size, MADV_DONTFORK) != 0) {
    munmap(address, size);
    return nullptr;
  }
  return static_cast<char*>(address);
}

// Preferred, not bound: a full node would otherwise get the process killed.
void RealPreferNode(char* address, size_t size, int node) {
  constexpr int kBits = 64;
  std::array<uint64_t, 16> mask = {};
  if (node < 0 || node >= kBits * static_cast<int>(mask.size())) return;
  mask[node / kBits] = uint64_t{1} << (node % kBits);
  syscall(SYS_mbind, address, size, MPOL_PREFERRED, mask.data(),
          kBits * mask.size() + 1, 0);
}

// Touched here, once, by a background thread: the driver would do it page by
// page under its own locks.
bool RealCommit(char* address, size_t size) {
  if (mprotect(address, size, PROT_READ | PROT_WRITE) != 0) return false;
  if (madvise(address, size, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // Linux before 5.14.
  for (size_t at = 0; at < size; at += kPageSize) {
    *const_cast<volatile char*>(address + at) = 0;
  }
  return true;
}

void RealDecommit(char* address, size_t size) {
  madvise(address, size, MADV_DONTNEED);
  mprotect(address, size, PROT_NONE);
}

void RealRelease(char* address, size_t size) { munmap(address, size); }

}  // namespace

const SlabSystem& SlabSystem::Real() {
  static constexpr SlabSystem kReal = {RealReserve, RealPreferNode, RealCommit,
                                       RealDecommit, RealRelease};
  return kReal;
}

// The chunks. Lives as long as the thread that makes some of them.
struct PinnedSlab::Core : std::enable_shared_from_this<Core> {
  enum class Chunk : char { kAbsent, kInWork, kPinned, kPageable };

  Core(const CudaApi* api, const SlabOptions& options, const SlabSystem& system,
       char* base)
      : api(*api),
        options(options),
        system(system),
        base(base),
        chunks((Count(options.limit) + Count(options.chunk) - 1) /
               Count(options.chunk)) {}

  char* Address(size_t index) const {
    return base + index * Count(options.chunk);
  }
  // The last chunk may be shorter.
  Bytes Size(size_t index) const {
    return std::min(options.chunk,
                    options.limit - Bytes{static_cast<int64_t>(index) *
                                          Count(options.chunk)});
  }
  absl::Status Ensure(size_t index);
  absl::Status Make(size_t index, bool may_stay_pageable);
  void RequestAhead(int64_t used);
  void Loop();
  std::optional<size_t> NextAhead() const;
  bool IsGoingAhead();
  void Stop();
  bool UnregisterAll();

  const CudaApi& api;
  const SlabOptions options;
  const SlabSystem system;
  char* const base;
  const pid_t process = getpid();

  std::mutex mutex;
  std::condition_variable work;     // for the thread
  std::condition_variable changed;  // for all other threads
  std::vector<Chunk> chunks;
  size_t wanted = 0;  // chunks before this one are to be made ahead of need
  bool may_go_ahead = true;  // the last one made ahead could be made
  bool running = false;
  bool stop = false;
  SlabStats stats;
  absl::Status first_refusal;
};

// Makes the chunk unless another thread has made it or is making it.
absl::Status PinnedSlab::Core::Ensure(size_t index) {
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return chunks[index] != Chunk::kInWork; });
    if (chunks[index] != Chunk::kAbsent) return absl::OkStatus();
    chunks[index] = Chunk::kInWork;
  }
  absl::Status made = Make(index, /*may_stay_pageable=*/true);
  if (made.ok()) {
    std::lock_guard lock(mutex);
    may_go_ahead = chunks[index] == Chunk::kPinned;
  }
  return made;
}

// Makes a chunk that is in work, which it is no longer afterwards. An error
// leaves the chunk absent.
absl::Status PinnedSlab::Core::Make(size_t index, bool may_stay_pageable) {
  char* const address = Address(index);
  const size_t size = Count(Size(index));
  Chunk now = Chunk::kAbsent;
  absl::Status failure;
  absl::Status refusal;
  if (system.commit(address, size)) {
    const CudaScope scope(api, options.device);
    refusal = scope.status();
    if (refusal.ok()) {
      refusal = CudaStatus(
          api, api.host_register(address, size, cudaHostRegisterPortable),
          "cudaHostRegister");
    }
    if (refusal.ok()) {
      now = Chunk::kPinned;
    } else if (may_stay_pageable) {
      now = Chunk::kPageable;
    } else {
      system.decommit(address, size);
      failure = refusal;
    }
  } else {
    system.decommit(address, size);
    failure = absl::ResourceExhaustedError(absl::StrFormat(
        "host memory: the system has no memory for %d bytes", size));
  }
  std::lock_guard lock(mutex);
  chunks[index] = now;
  if (now == Chunk::kPinned) stats.pinned += Size(index);
  if (now == Chunk::kPageable) stats.pageable += Size(index);
  if (!refusal.ok() && stats.refusals++ == 0) first_refusal = refusal;
  changed.notify_all();
  return failure;
}

void PinnedSlab::Core::RequestAhead(int64_t used) {
  const int64_t chunk = Count(options.chunk);
  const int64_t end =
      std::min(used + Count(options.ahead), Count(options.limit));
  std::lock_guard lock(mutex);
  wanted = std::max(wanted, static_cast<size_t>((end + chunk - 1) / chunk));
  if (stop || !NextAhead()) return;
  // Without a thread, Take makes what it needs.
  if (!running) {
    running = StartDetachedThread(
        "ebbtide-pin", [core = shared_from_this()] { core->Loop(); });
  }
  work.notify_one();
}

std::optional<size_t> PinnedSlab::Core::NextAhead() const {
  if (!may_go_ahead) return std::nullopt;
  const auto end = chunks.begin() + std::min(wanted, chunks.size());
  const auto absent = std::find(chunks.begin(), end, Chunk::kAbsent);
  if (absent == end) return std::nullopt;
  return absent - chunks.begin();
}

bool PinnedSlab::Core::IsGoingAhead() {
  std::lock_guard lock(mutex);
  const auto end = chunks.begin() + std::min(wanted, chunks.size());
  return running &&
         (NextAhead() || std::find(chunks.begin(), end, Chunk::kInWork) != end);
}

void PinnedSlab::Core::Loop() {
  // For good: going back to a device that the program does not use would give
  // that one a context. A failure shows again in Make.
  CudaStatus(api, api.set_device(options.device), "cudaSetDevice")
      .IgnoreError();
  std::unique_lock lock(mutex);
  while (true) {
    work.wait(lock, [&] { return stop || NextAhead(); });
    if (stop) break;
    const size_t index = *NextAhead();
    chunks[index] = Chunk::kInWork;
    lock.unlock();
    const bool made = Make(index, /*may_stay_pageable=*/false).ok();
    lock.lock();
    // A request for the memory will retry and report it.
    may_go_ahead = made;
  }
  running = false;
  changed.notify_all();
}

void PinnedSlab::Core::Stop() {
  std::unique_lock lock(mutex);
  stop = true;
  work.notify_all();
  changed.wait(lock, [this] { return !running; });
}

// After Stop.
bool PinnedSlab::Core::UnregisterAll() {
  const CudaScope scope(api, options.device);
  bool all = true;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] != Chunk::kPinned) continue;
    const absl::Status done =
        CudaStatus(api, api.host_unregister(Address(i)), "cudaHostUnregister");
    all = all && done.ok();
  }
  return all;
}

absl::StatusOr<std::unique_ptr<PinnedSlab>> PinnedSlab::Open(
    const CudaApi* api, const SlabOptions& options, const SlabSystem& system) {
  SlabOptions whole = options;
  whole.limit = Bytes{Count(options.limit) & ~(kPageSize - 1)};
  whole.chunk = RoundUpToPage(options.chunk);
  if (whole.limit <= Bytes{0} || whole.chunk <= Bytes{0}) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "host memory: a limit of %d bytes in chunks of %d is no memory",
        Count(options.limit), Count(options.chunk)));
  }
  char* const base = system.reserve(Count(whole.limit));
  if (base == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "host memory: no %d bytes of address space", Count(whole.limit)));
  }
  if (whole.node) system.prefer_node(base, Count(whole.limit), *whole.node);
  auto core = std::make_shared<Core>(api, whole, system, base);
  core->RequestAhead(0);
  return std::unique_ptr<PinnedSlab>(
      new PinnedSlab(std::move(core), base, whole.limit, whole.chunk));
}

PinnedSlab::~PinnedSlab() {
  if (getpid() != core_->process) return;
  core_->Stop();
  if (core_->UnregisterAll()) core_->system.release(base_, Count(limit()));
}

absl::StatusOr<Extent> PinnedSlab::Take(Bytes size) {
  const std::optional<Extent> extent = extents_.Take(size);
  if (!extent) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "host memory: no room for %d bytes; %d of its limit of %d are used",
        Count(size), Count(extents_.used()), Count(limit())));
  }
  const int64_t end = extent->offset + Count(extent->size);
  for (int64_t i = extent->offset / Count(chunk_); i * Count(chunk_) < end;
       ++i) {
    const absl::Status made = core_->Ensure(i);
    if (made.ok()) continue;
    extents_.Give(*extent);
    return made;
  }
  core_->RequestAhead(end);
  return *extent;
}

bool PinnedSlab::Prepare(Bytes size) {
  const int64_t ahead = Count(core_->options.ahead);
  core_->RequestAhead(std::max<int64_t>(Count(size) - ahead, 0));
  return !core_->IsGoingAhead();
}

SlabStats PinnedSlab::Stats() const {
  std::lock_guard lock(core_->mutex);
  SlabStats stats = core_->stats;
  stats.used = extents_.used();
  return stats;
}

absl::Status PinnedSlab::TakeRefusal() {
  std::lock_guard lock(core_->mutex);
  return std::exchange(core_->first_refusal, absl::OkStatus());
}

}  // namespace ebbtide
