// What an arena has of the native allocator's memory.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_device_arena.h"

namespace ebbtide {
namespace {

// The least that requests for large segments are for, in bytes of a block.
constexpr int64_t kLeastLarge = (1 << 20) + kArenaGrain;

size_t AddressOf(const void* block) { return reinterpret_cast<size_t>(block); }

// Of a hole for small requests that is worth a run.
constexpr Bytes kLeastSmall{256 << 10};
// The most that one of them gets.
constexpr Bytes kMostSmall{1 << 20};

// While this thread takes a block (0) or gives that one back.
constexpr size_t kNone = ~size_t{0};
thread_local size_t memory_block = kNone;

class MemoryScope {
 public:
  explicit MemoryScope(const void* block) { memory_block = AddressOf(block); }
  ~MemoryScope() { memory_block = kNone; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
};

}  // namespace

bool DeviceArena::IsOfBlock(const TraceEntry& entry) {
  return entry.action_ == TraceEntry::ALLOC ||
         entry.action_ == TraceEntry::FREE_REQUESTED ||
         entry.action_ == TraceEntry::FREE_COMPLETED;
}

bool DeviceArena::IsOfMemory(const TraceEntry& entry) {
  if (memory_block == kNone || !IsOfBlock(entry)) return false;
  // What others have freed may come to its end meanwhile.
  return entry.action_ == TraceEntry::ALLOC ? memory_block == 0
                                            : memory_block == entry.addr_;
}

// A byte less than the block has: no request of a program for tensors is told
// as such a one in traces. Throws as the native allocator does.
ArenaRun DeviceArena::TakeBlock(Bytes size, cudaStream_t stream) {
  const size_t asked = static_cast<size_t>(Count(size)) - 1;
  const auto before = native_.getDeviceStats(device_);
  void* block = nullptr;
  {
    const MemoryScope scope(nullptr);
    block = native_.raw_alloc_with_stream(asked, stream);
  }
  size = BooksOf(device_).AddArena(block, size);
  const auto after = native_.getDeviceStats(device_);
  const auto whole = static_cast<size_t>(Count(size));
  std::lock_guard lock(mutex_);
  own_.push_back({.address = AddressOf(block),
                  .block = {.size = whole, .asked = asked},
                  .stream = stream});
  stats_.OnTaken(before, own_.back().block);
  stats_.OnNative(after);
  return {.base = static_cast<char*>(block), .size = size};
}

// Those that requests can ask for, smallest first.
std::vector<DeviceArena::Hole> DeviceArena::HolesIn(bool large) const {
  std::vector<Hole> holes;
  for (const auto& segment : native_.snapshot({0, 0}, false).segments) {
    if (segment.device != device_ || segment.is_large != large ||
        segment.is_expandable ||
        segment.owner_private_pool_id != c10::MempoolId_t{0, 0}) {
      continue;
    }
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      const Bytes size{static_cast<int64_t>(block.size)};
      const bool is_enough =
          large ? !IsSmall(block.size - 1) : size >= kLeastSmall;
      if (!block.active && !block.allocated && is_enough) {
        holes.push_back(
            {.run = {.base = reinterpret_cast<char*>(address), .size = size},
             .stream = static_cast<cudaStream_t>(segment.stream)});
      }
      address += block.size;
    }
  }
  std::sort(holes.begin(), holes.end(), [](const Hole& a, const Hole& b) {
    return a.run.size < b.run.size;
  });
  return holes;
}

// Throws as the native allocator does.
void DeviceArena::TakeAll(const std::vector<Hole>& holes,
                          absl::Span<const Hole> wanted,
                          std::vector<ArenaRun>* runs) {
  for (const Hole& hole : wanted) {
    const ArenaRun run = TakeBlock(hole.run.size, hole.stream);
    runs->push_back(run);
    // Of several of one size any may come first; another thread may have
    // been faster, and then it is no hole.
    const bool is_hole =
        std::any_of(holes.begin(), holes.end(), [&](const Hole& h) {
          return run.base >= h.run.base && run.base < h.run.end();
        });
    if (!is_hole) break;
  }
  if (!wanted.empty()) c10::cuda::device_synchronize();
}

absl::Status DeviceArena::TakeHoles(std::vector<ArenaRun>* runs) {
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  try {
    native_.emptyCache({0, 0});
    const std::vector<Hole> holes = HolesIn(/*large=*/true);
    TakeAll(holes, holes, runs);
  } catch (const c10::Error& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

absl::Status DeviceArena::TakeSmallHoles(std::vector<ArenaRun>* runs) {
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  try {
    const std::vector<Hole> holes = HolesIn(/*large=*/false);
    // What is longer than any request first, so that what is left of it is a
    // hole of just that size.
    std::vector<Hole> first;
    std::vector<Hole> rest;
    for (Hole hole : holes) {
      if (hole.run.size > kMostSmall) {
        first.push_back(hole);
        first.back().run.size = kMostSmall;
        hole.run.size -= kMostSmall;
      }
      if (hole.run.size >= kLeastSmall) rest.push_back(hole);
    }
    first.insert(first.end(), rest.begin(), rest.end());
    TakeAll(holes, first, runs);
  } catch (const c10::Error& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

absl::Status DeviceArena::Take(Bytes size, std::vector<ArenaRun>* runs) {
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  const Bytes segment =
      LeastSegmentFor(std::max<size_t>(Count(size), kLeastLarge));
  const DeviceBooks& books = BooksOf(device_);
  const Bytes over = books.reserved() + segment - books.ledger().budget();
  if (over > Bytes{0}) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Count(over), " bytes are missing for it in the budget"));
  }
  try {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_);
    runs->push_back(TakeBlock(segment, stream));
    c10::cuda::device_synchronize();
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

// What the native allocator had for what lies in the arena now.
void DeviceArena::GiveBackIdle() {
  if (pools_ > 0 || BooksOf(device_).idle() == Bytes{0}) return;
  try {
    native_.emptyCache({0, 0});
  } catch (const c10::Error&) {
    // A device that has failed says so again when the program asks it.
  }
}

cudaStream_t DeviceArena::StreamOf(const ArenaRun& run) const {
  std::lock_guard lock(mutex_);
  const auto own = std::find_if(own_.begin(), own_.end(), [&](const Own& o) {
    return o.is_held && o.address == AddressOf(run.base);
  });
  return own->stream;
}

absl::Status DeviceArena::Shorten(Bytes size, ArenaRun* run) {
  const bool is_large = run->size > kMostSmall;
  // No request for less goes to segments for large ones.
  if (is_large) size = std::max(size, Bytes{kLeastLarge});
  // The native allocator would not split that off.
  const Bytes least = is_large ? kMostSmall : Bytes{0};
  if (run->size <= size + least) return absl::OkStatus();
  const cudaStream_t stream = StreamOf(*run);
  if (!GiveBack({run, 1})) return absl::OkStatus();
  *run = {};
  try {
    *run = TakeBlock(size, stream);
    // Another thread may have been faster, and this is not what it was.
    c10::cuda::device_synchronize();
  } catch (const c10::Error& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

// Throws as the native allocator does: the program's request is at stake.
std::optional<ArenaRun> DeviceArena::TakeFor(Bytes size, int stream) {
  if (pools_ > 0) return std::nullopt;
  return TakeBlock(RoundUp(static_cast<size_t>(Count(size))), streams_[stream]);
}

bool DeviceArena::GiveBack(absl::Span<const ArenaRun> runs) {
  if (runs.empty()) return true;
  if (pools_ > 0) return false;
  absl::flat_hash_set<size_t> addresses;
  for (const ArenaRun& run : runs) addresses.insert(AddressOf(run.base));
  absl::flat_hash_set<cudaStream_t> users;
  {
    std::lock_guard lock(mutex_);
    for (const Own& own : own_) {
      if (addresses.contains(own.address)) users.insert(own.stream);
    }
  }
  for (const cudaStream_t user : users) {
    for (int i = 0; i < stream_count_; ++i) {
      if (!Order(streams_[i], user).ok()) return false;
    }
  }
  bool has_memory = false;
  {
    const auto native = native_.getDeviceStats(device_);
    std::lock_guard lock(mutex_);
    for (Own& own : own_) {
      if (!own.is_held || !addresses.contains(own.address)) continue;
      own.is_held = false;
      stats_.OnGivenBack(native, own.block);
    }
    has_memory = stats_.HasMemory();
  }
  for (const ArenaRun& run : runs) {
    BooksOf(device_).RemoveArena(run.base);
    const MemoryScope scope(run.base);
    native_.raw_delete(run.base);
  }
  if (!has_memory) native_.resetPeakStats(device_);
  return true;
}

}  // namespace ebbtide
