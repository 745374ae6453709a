#include "allocator/torch_cuda_device_arena.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_books.h"

namespace ebbtide {
namespace {

// Streams that the program made itself, which it may destroy: those of PyTorch
// have an odd number, and the default one has 0 (c10/cuda/CUDAStream.h).
bool IsExternal(c10::cuda::CUDAStream stream) {
  return stream.id() != 0 && (stream.id() & 1) == 0;
}

size_t AddressOf(const void* block) { return reinterpret_cast<size_t>(block); }

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

void DeviceArena::BeginStep(bool is_wanted) {
  arena_.BeginStep(is_wanted);
  steps_served_ = arena_.HasMemory() ? steps_served_ + 1 : 0;
  // By then what is alive when steps begin is in the arena.
  if (steps_served_ != 2) return;
  GiveBackIdle();
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
