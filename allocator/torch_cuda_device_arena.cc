#include "allocator/torch_cuda_device_arena.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "allocator/allocation_kind.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_budget.h"

namespace ebbtide {
namespace {

// Addresses, of the device's memory: holes between blocks that stay are never
// the last ones.
constexpr int64_t kAddresses = 8;

// Streams that the program made itself, which it may destroy: those of PyTorch
// have an odd number, and the default one has 0 (c10/cuda/CUDAStream.h).
bool IsExternal(c10::cuda::CUDAStream stream) {
  return stream.id() != 0 && (stream.id() & 1) == 0;
}

size_t AddressOf(const void* block) { return reinterpret_cast<size_t>(block); }

const CudaEvent& EventOf(const StreamMark& mark) {
  return *static_cast<const CudaEvent*>(mark.get());
}

// Parameters, gradients and optimizer state are written without a graph.
PageArena::By WhoAsks() {
  if (c10::GradMode::is_enabled() ||
      AllocationKind::Current() != Kind::kOther) {
    return PageArena::By::kForward;
  }
  return torch::autograd::get_current_node() != nullptr
             ? PageArena::By::kBackward
             : PageArena::By::kOutside;
}

}  // namespace

DeviceArena::DeviceArena(const Parts& parts, Bytes page)
    : DevicePages(parts.api, parts.driver, parts.device, page),
      parts_(parts),
      events_(CudaEvents::Create(parts.api, parts.device)),
      arena_(&pages_, parts.name_op) {
  stats_.Begin(parts.native->getDeviceStats(parts.device));
}

absl::StatusOr<std::unique_ptr<DeviceArena>> DeviceArena::Make(
    const Parts& parts) {
  const auto page = PageFor(*parts.driver, parts.device, parts.memory);
  if (!page.ok()) return page.status();
  std::unique_ptr<DeviceArena> arena(new DeviceArena(parts, *page));
  const absl::Status reserved =
      arena->pages_.Reserve(Bytes{kAddresses * Count(parts.total)});
  if (!reserved.ok()) return reserved;
  return arena;
}

bool DeviceArena::BeginStep(int64_t plan) {
  arena_.BeginStep(plan);
  // By then blocks that are alive when steps begin have the plan's addresses.
  if (arena_.steps_served() == 2) {
    GiveBackFree(/*of_plan=*/false);
    const auto beside = FindBeside();
    std::lock_guard lock(mutex_);
    beside_ = beside;
  }
  return arena_.IsTrying();
}

std::pair<Bytes, Bytes> DeviceArena::FindBeside() const {
  const PageArena::Facts facts = pages_.facts();
  const DeviceBooks& books = BooksOf(parts_.device);
  return {books.reserved() - facts.planned - facts.free,
          books.ledger().live() - facts.planned_alive};
}

Bytes DeviceArena::WasteBeside(Bytes budget) const {
  const auto [reserved, alive] = FindBeside();
  return std::max(reserved - alive, Bytes{}) + page() +
         Bytes{Count(budget) % Count(page())};
}

StepArena::Facts DeviceArena::facts() const {
  StepArena::Facts facts = arena_.facts();
  std::lock_guard lock(mutex_);
  std::tie(facts.beside, facts.beside_alive) = beside_;
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

void* DeviceArena::Allocate(size_t size, c10::cuda::CUDAStream stream,
                            bool is_last) {
  const auto number = NumberOf(stream);
  if (!number) return nullptr;
  void* const block = arena_.Allocate(Bytes{static_cast<int64_t>(size)},
                                      *number, is_last, WhoAsks());
  if (block == nullptr) return nullptr;
  Block what = {.size = size, .stream = stream};
  if (parts_.history->is_enabled()) {
    what.context = parts_.history->ContextOfBlock();
  }
  Tell(TraceEntry::ALLOC, block, size, stream.stream(), what.context);
  std::lock_guard lock(mutex_);
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
  }
  const Bytes size = RoundUp(what->size);
  const cudaStream_t stream = what->stream.stream();
  // The state of streams that the program may destroy is not queried later.
  for (const cudaStream_t stranger : what->strangers) {
    // The block serves no request where neither can be done.
    if (!Order(stranger, stream).ok() && !WaitFor(stranger)) return size;
  }
  // Before another request may have it.
  Tell(TraceEntry::FREE_REQUESTED, block, what->size, stream, what->context);
  Tell(TraceEntry::FREE_COMPLETED, block, what->size, stream, what->context);
  arena_.Free(block, what->others, what->ends);
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

bool DeviceArena::KeepUntil(const void* block,
                            std::shared_ptr<const CudaEvent> end) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return false;
  found->second.ends.push_back(std::move(end));
  return true;
}

bool DeviceArena::FindsRoom(size_t size, c10::cuda::CUDAStream stream) {
  const auto number = NumberOf(stream);
  return number && pages_.FindsRoom(Bytes{static_cast<int64_t>(size)}, *number);
}

void DeviceArena::AllowPeer(c10::DeviceIndex device) {
  pages_.WithMapped([&](const std::vector<PageArena::Range>& ranges) {
    AddPeer(device);
    for (const PageArena::Range& range : ranges) {
      const absl::Status allowed =
          Allow(range.begin, Bytes{range.end - range.begin});
      TORCH_CHECK(allowed.ok(), "ebbtide: device ", static_cast<int>(device),
                  " cannot use the memory of ", static_cast<int>(parts_.device),
                  ": ", allowed.message());
    }
  });
}

int64_t DeviceArena::Room() const {
  const DeviceBooks& books = BooksOf(parts_.device);
  const Bytes room = LimitOf(parts_.device, parts_.total) - books.reserved();
  return std::max<int64_t>(0, Count(room) / Count(page()));
}

void DeviceArena::OnMapped(char* begin, Bytes size) {
  Tell(TraceEntry::SEGMENT_MAP, begin, Count(size), nullptr, nullptr);
}

void DeviceArena::OnUnmapped(char* begin, Bytes size) {
  Tell(TraceEntry::SEGMENT_UNMAP, begin, Count(size), nullptr, nullptr);
}

absl::StatusOr<CudaEvent> DeviceArena::EndOf(cudaStream_t stream) {
  // A capture would take what is queued for its own.
  if (*parts_.pools > 0) return absl::UnavailableError("a capture is going on");
  const CudaScope scope(*parts_.api, parts_.device);
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
  const CudaScope scope(*parts_.api, parts_.device);
  return end->OrderBefore(after);
}

// True where all that was queued on the stream is over.
bool DeviceArena::WaitFor(cudaStream_t stream) {
  const CudaApi& api = *parts_.api;
  const CudaScope scope(api, parts_.device);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const absl::Status known = CudaStatus(
      api, api.stream_is_capturing(stream, &capture), "cudaStreamIsCapturing");
  // To wait for a capture ends it.
  if (!known.ok() || capture != cudaStreamCaptureStatusNone) return false;
  return CudaStatus(api, api.stream_synchronize(stream),
                    "cudaStreamSynchronize")
      .ok();
}

absl::StatusOr<StreamMark> DeviceArena::Mark(int stream) {
  auto end = EndOf(streams_[stream]);
  if (!end.ok()) return end.status();
  return std::make_shared<const CudaEvent>(*std::move(end));
}

absl::Status DeviceArena::RunBehind(const StreamMark& mark, int stream) {
  if (*parts_.pools > 0) return absl::UnavailableError("a capture is going on");
  return EventOf(mark).OrderBefore(streams_[stream]);
}

bool DeviceArena::IsOver(const StreamMark& mark) {
  const CudaScope scope(*parts_.api);
  return EventOf(mark).Query() == cudaSuccess;
}

absl::Status DeviceArena::Wait(const StreamMark& mark) {
  const CudaScope scope(*parts_.api);
  return CudaStatus(*parts_.api, EventOf(mark).Wait(), "cudaEventSynchronize");
}

void DeviceArena::Tell(TraceEntry::Action action, const void* block,
                       size_t size, cudaStream_t stream,
                       const ArenaHistory::Context& context) {
  stats_.OnTrace(action, size, /*is_of_arena=*/true);
  Note(parts_.device, action, block, size);
  const bool is_recorded = parts_.history->is_enabled();
  const Trackers* const trackers = *parts_.trackers;
  if (!is_recorded && trackers == nullptr) return;
  TraceEntry entry(action, parts_.device, AddressOf(block), size, stream,
                   c10::MempoolId_t{0, 0}, c10::getApproximateTime(), nullptr,
                   "", is_recorded ? parts_.native->getUserMetadata() : "");
  for (size_t i = 0; trackers != nullptr && i < trackers->size(); ++i) {
    (*trackers)[i](entry);
  }
  if (is_recorded) parts_.history->Add(std::move(entry), context);
}

ArenaHistory::Context DeviceArena::ContextOf(const void* block) const {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? nullptr : found->second.context;
}

// One per piece of mapped addresses.
void DeviceArena::AddSegments(std::vector<SegmentInfo>* segments) const {
  std::vector<PageArena::Range> blocks;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [block, what] : blocks_) {
      auto* const begin = static_cast<char*>(const_cast<void*>(block));
      blocks.push_back({begin, begin + what.size});
    }
  }
  const std::vector<PageArena::Range> ranges = pages_.MappedOnce(blocks);
  std::lock_guard lock(mutex_);
  std::vector<std::pair<size_t, const Block*>> live;
  for (const auto& [block, what] : blocks_) {
    live.emplace_back(AddressOf(block), &what);
  }
  std::sort(live.begin(), live.end());
  auto next = live.begin();
  for (const PageArena::Range& range : ranges) {
    SegmentInfo segment;
    segment.device = parts_.device;
    segment.address = AddressOf(range.begin);
    segment.total_size = range.end - range.begin;
    segment.is_large = true;
    segment.is_expandable = true;
    size_t address = segment.address;
    const auto add_hole = [&](size_t until) {
      if (until > address) segment.blocks.push_back({.size = until - address});
    };
    for (; next != live.end() && next->first < AddressOf(range.end); ++next) {
      const auto& [at, what] = *next;
      if (at < address) continue;  // unmapped meanwhile
      add_hole(at);
      const auto size = static_cast<size_t>(Count(RoundUp(what->size)));
      segment.blocks.push_back({.size = size,
                                .requested_size = what->size,
                                .allocated = true,
                                .active = true,
                                .context_when_allocated = what->context});
      segment.allocated_size += size;
      segment.active_size += size;
      segment.requested_size += what->size;
      address = at + size;
    }
    add_hole(AddressOf(range.end));
    segments->push_back(std::move(segment));
  }
}

}  // namespace ebbtide
