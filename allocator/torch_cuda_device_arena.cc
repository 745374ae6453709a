#include "allocator/torch_cuda_device_arena.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_books.h"

namespace ebbtide {
namespace {

// The native allocator reserves whole ones of these for large requests.
constexpr int64_t kSegmentGrain = 2 << 20;

// Streams that the program made itself, which it may destroy: those of PyTorch
// have an odd number, and the default one has 0 (c10/cuda/CUDAStream.h).
bool IsExternal(c10::cuda::CUDAStream stream) {
  return stream.id() != 0 && (stream.id() & 1) == 0;
}

// What to ask for so that no more than that is reserved: below 10 MiB the
// native allocator would reserve 20 MiB.
Bytes SegmentFor(Bytes size) {
  constexpr int64_t kLeast = 10 << 20;
  const int64_t whole =
      (Count(size) + kSegmentGrain - 1) / kSegmentGrain * kSegmentGrain;
  return Bytes{std::max(whole, kLeast)};
}

// Of a segment for large requests.
struct Hole {
  ArenaRun run;
  cudaStream_t stream = nullptr;
};

// Those that a request can ask for exactly, smallest first.
std::vector<Hole> HolesIn(const native::SnapshotInfo& snapshot,
                          c10::DeviceIndex device) {
  std::vector<Hole> holes;
  for (const auto& segment : snapshot.segments) {
    if (segment.device != device || !segment.is_large ||
        segment.is_expandable ||
        segment.owner_private_pool_id != c10::MempoolId_t{0, 0}) {
      continue;
    }
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (!block.active && !block.allocated && !IsSmall(block.size - 1)) {
        holes.push_back(
            {.run = {.base = reinterpret_cast<char*>(address),
                     .size = Bytes{static_cast<int64_t>(block.size)}},
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

size_t AddressOf(const void* block) { return reinterpret_cast<size_t>(block); }

bool IsOfBlock(const c10::CachingDeviceAllocator::TraceEntry& entry) {
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  return entry.action_ == Entry::ALLOC ||
         entry.action_ == Entry::FREE_REQUESTED ||
         entry.action_ == Entry::FREE_COMPLETED;
}

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

DeviceArena::DeviceArena(native::CUDAAllocator* native, c10::DeviceIndex device,
                         const CudaApi* api, const std::atomic<int>* pools,
                         ArenaHistory* history,
                         native::AllocatorTraceTracker tell,
                         StepArena::NameOp name_op)
    : native_(*native),
      device_(device),
      api_(*api),
      pools_(*pools),
      history_(*history),
      tell_(std::move(tell)),
      events_(CudaEvents::Create(api, device)),
      arena_(this, this, name_op) {}

bool DeviceArena::IsOfMemory(const TraceEntry& entry) {
  if (memory_block == kNone || !IsOfBlock(entry)) return false;
  // What others have freed may come to its end meanwhile.
  return entry.action_ == TraceEntry::ALLOC ? memory_block == 0
                                            : memory_block == entry.addr_;
}

void DeviceArena::BeginStep(bool is_wanted) {
  arena_.BeginStep(is_wanted);
  steps_served_ = arena_.HasMemory() ? steps_served_ + 1 : 0;
  // By then what is alive when steps begin is in the arena.
  if (steps_served_ != 2) return;
  const Bytes size = arena_.facts().size;
  const DeviceBooks& books = BooksOf(device_);
  std::lock_guard lock(mutex_);
  beside_ = books.reserved() - size;
  beside_alive_ = books.ledger().live() - stats_.Alive();
}

StepArena::Facts DeviceArena::facts() const {
  StepArena::Facts facts = arena_.facts();
  std::lock_guard lock(mutex_);
  facts.beside = beside_;
  facts.beside_alive = beside_alive_;
  return facts;
}

std::optional<int> DeviceArena::NumberOf(c10::cuda::CUDAStream stream) {
  if (IsExternal(stream)) return std::nullopt;
  const cudaStream_t wanted = stream.stream();
  const auto find = [&]() -> std::optional<int> {
    const int count = stream_count_;
    for (int i = 0; i < count; ++i) {
      if (streams_[i] == wanted) return i;
    }
    return std::nullopt;
  };
  if (const auto known = find()) return known;
  std::lock_guard lock(streams_mutex_);
  if (const auto known = find()) return known;
  const int number = stream_count_;
  if (number == kMostStreams) return std::nullopt;
  streams_[number] = wanted;
  stream_count_ = number + 1;
  return number;
}

void* DeviceArena::Allocate(size_t size, c10::cuda::CUDAStream stream) {
  const auto number = NumberOf(stream);
  if (!number) return nullptr;
  return Book(arena_.Allocate(Bytes{static_cast<int64_t>(size)}, *number), size,
              stream);
}

void* DeviceArena::AllocateAnywhere(size_t size, c10::cuda::CUDAStream stream) {
  const auto number = NumberOf(stream);
  if (!number) return nullptr;
  return Book(
      arena_.AllocateAnywhere(Bytes{static_cast<int64_t>(size)}, *number), size,
      stream);
}

void* DeviceArena::Book(void* block, size_t size,
                        c10::cuda::CUDAStream stream) {
  if (block == nullptr) return nullptr;
  Block what = {.size = size, .stream = stream};
  if (history_.is_enabled()) what.context = history_.ContextOfBlock();
  Tell(TraceEntry::ALLOC, block, what);
  std::optional<ArenaStats::DeviceStats> native;
  if (is_stale_.exchange(false)) native = native_.getDeviceStats(device_);
  std::lock_guard lock(mutex_);
  if (native) stats_.OnNative(*native);
  stats_.OnAllocate(size);
  blocks_.insert_or_assign(block, std::move(what));
  return block;
}

Bytes DeviceArena::Free(void* block) {
  std::optional<Block> what;
  {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    TORCH_CHECK(found != blocks_.end(), "invalid device pointer: ", block);
    what = std::move(found->second);
    blocks_.erase(found);
    stats_.OnFree(what->size);
  }
  const Bytes size = RoundUp(what->size);
  // Nobody asks later what streams do that the program may destroy.
  for (const cudaStream_t stranger : what->strangers) {
    // Nobody gets the block then.
    if (!Order(stranger, what->stream.stream()).ok()) return size;
  }
  // Before anybody else may have it.
  Tell(TraceEntry::FREE_REQUESTED, block, *what);
  Tell(TraceEntry::FREE_COMPLETED, block, *what);
  arena_.Free(block, what->others);
  return size;
}

void DeviceArena::KeepFor(const void* block, c10::cuda::CUDAStream stream) {
  const auto number = NumberOf(stream);
  const auto add = [](auto* all, auto one) {
    if (std::find(all->begin(), all->end(), one) == all->end()) {
      all->push_back(one);
    }
  };
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.stream == stream) return;
  if (number) {
    add(&found->second.others, *number);
  } else {
    add(&found->second.strangers, stream.stream());
  }
}

void DeviceArena::OnNative(const void* block, size_t size,
                           c10::cuda::CUDAStream stream) {
  const auto number = NumberOf(stream);
  if (number) {
    arena_.OnAllocate(block, Bytes{static_cast<int64_t>(size)}, *number);
  }
}

void DeviceArena::OnNativeChange() {
  if (!arena_.HasMemory()) return;
  const auto native = native_.getDeviceStats(device_);
  std::lock_guard lock(mutex_);
  stats_.OnNative(native);
}

void DeviceArena::OnNativeFree(const void* block) {
  is_stale_ = true;
  arena_.OnFree(block);
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

absl::Status DeviceArena::TakeHoles(std::vector<ArenaRun>* runs) {
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  try {
    native_.emptyCache({0, 0});
    const auto holes = HolesIn(native_.snapshot({0, 0}, false), device_);
    for (const Hole& hole : holes) {
      runs->push_back(TakeBlock(hole.run.size, hole.stream));
      // Of several of one size any may come first; another thread may have
      // been faster, and then it is no hole.
      const bool is_hole = std::any_of(
          holes.begin(), holes.end(),
          [&](const Hole& h) { return h.run.base == runs->back().base; });
      if (!is_hole) break;
    }
    if (!runs->empty()) c10::cuda::device_synchronize();
  } catch (const c10::Error& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  }
  return absl::OkStatus();
}

absl::Status DeviceArena::Take(Bytes size, std::vector<ArenaRun>* runs) {
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  const Bytes segment = SegmentFor(size);
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

absl::StatusOr<CudaEvent> DeviceArena::EndOf(cudaStream_t stream) {
  // A capture would take what is queued for its own.
  if (pools_ > 0) return absl::UnavailableError("a capture is going on");
  const CudaScope scope(api_, device_);
  auto event = events_->Take(CudaEvent::Use::kOrder);
  if (!event.ok()) return event.status();
  const absl::Status recorded = event->Record(stream);
  if (!recorded.ok()) return recorded;
  return event;
}

absl::Status DeviceArena::Order(cudaStream_t before, cudaStream_t after) {
  if (before == after) return absl::OkStatus();
  const auto end = EndOf(before);
  if (!end.ok()) return end.status();
  const CudaScope scope(api_, device_);
  return end->OrderBefore(after);
}

absl::Status DeviceArena::NoteEnd(int slot, absl::Span<const int> streams) {
  if (slot >= static_cast<int>(ends_.size())) ends_.resize(slot + 1);
  ends_[slot].clear();
  for (const int stream : streams) {
    auto end = EndOf(streams_[stream]);
    if (!end.ok()) return end.status();
    ends_[slot].push_back(*std::move(end));
  }
  return absl::OkStatus();
}

absl::Status DeviceArena::RunBehind(int slot, int stream) {
  const CudaScope scope(api_, device_);
  for (const CudaEvent& end : ends_[slot]) {
    const absl::Status ordered = end.OrderBefore(streams_[stream]);
    if (!ordered.ok()) return ordered;
  }
  return absl::OkStatus();
}

absl::Status DeviceArena::RunBehindAll(int stream) {
  for (int i = 0; i < stream_count_; ++i) {
    const absl::Status ordered = Order(streams_[i], streams_[stream]);
    if (!ordered.ok()) return ordered;
  }
  return absl::OkStatus();
}

void DeviceArena::Tell(TraceEntry::Action action, const void* block,
                       const Block& what) {
  const bool is_recorded = history_.is_enabled();
  TraceEntry entry(action, device_, AddressOf(block), what.size,
                   what.stream.stream(), c10::MempoolId_t{0, 0},
                   c10::getApproximateTime(), nullptr, "",
                   is_recorded ? native_.getUserMetadata() : "");
  tell_(entry);
  if (is_recorded) history_.Add(std::move(entry), what.context);
}

ArenaStats::DeviceStats DeviceArena::Joined(
    const ArenaStats::DeviceStats& native) const {
  std::lock_guard lock(mutex_);
  return stats_.Joined(native);
}

void DeviceArena::ResetPeaks() {
  const auto native = native_.getDeviceStats(device_);
  std::lock_guard lock(mutex_);
  stats_.ResetPeaks(native);
}

void DeviceArena::ResetAccumulated() {
  std::lock_guard lock(mutex_);
  stats_.ResetAccumulated();
}

bool DeviceArena::IsOwn(const TraceEntry& entry) const {
  if (entry.device_ != device_ || !IsOfBlock(entry)) {
    return false;
  }
  std::lock_guard lock(mutex_);
  return std::any_of(own_.begin(), own_.end(), [&](const Own& own) {
    return own.address == entry.addr_ && own.block.asked == entry.size_;
  });
}

ArenaHistory::Context DeviceArena::ContextOf(const void* block) const {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? nullptr : found->second.context;
}

// In the place of each of the blocks that the native allocator has there.
void DeviceArena::Fill(SegmentInfo* segment) const {
  std::lock_guard lock(mutex_);
  std::vector<BlockInfo> blocks;
  size_t address = segment->address;
  for (BlockInfo& block : segment->blocks) {
    const size_t size = block.size;
    const bool is_own =
        block.allocated &&
        std::any_of(own_.begin(), own_.end(), [&](const Own& own) {
          return own.is_held && own.address == address;
        });
    if (is_own) {
      segment->allocated_size -= size;
      segment->active_size -= size;
      segment->requested_size -= block.requested_size;
      FillRun(address, address + size, segment, &blocks);
    } else {
      blocks.push_back(std::move(block));
    }
    address += size;
  }
  segment->blocks = std::move(blocks);
}

// With the mutex held.
void DeviceArena::FillRun(size_t begin, size_t end, SegmentInfo* segment,
                          std::vector<BlockInfo>* blocks) const {
  std::vector<std::pair<size_t, const Block*>> live;
  for (const auto& [block, what] : blocks_) {
    const size_t address = AddressOf(block);
    if (address >= begin && address < end) live.emplace_back(address, &what);
  }
  std::sort(live.begin(), live.end());
  size_t address = begin;
  const auto add_hole = [&](size_t until) {
    if (until > address) blocks->push_back({.size = until - address});
  };
  for (const auto& [at, what] : live) {
    add_hole(at);
    const auto size = static_cast<size_t>(Count(RoundUp(what->size)));
    blocks->push_back({.size = size,
                       .requested_size = what->size,
                       .allocated = true,
                       .active = true,
                       .context_when_allocated = what->context});
    segment->allocated_size += size;
    segment->active_size += size;
    segment->requested_size += what->size;
    address = at + size;
  }
  add_hole(end);
}

}  // namespace ebbtide
