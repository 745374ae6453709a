#include "hooks/host_tier.h"

#include <algorithm>

#include "allocator/torch_cpu_allocator.h"
#include "hooks/run_log.h"

namespace ebbtide {
namespace {

// Before the first copy was measured: a plain SATA disk.
constexpr double kAssumedBandwidth = 500e6;

// Both windows count against the budget while they are full.
constexpr Bytes kInFlight{64 << 20};

double Measured(const TransferLane& lane) {
  if (lane.ContendedBandwidth() > 0) return lane.ContendedBandwidth();
  return lane.Bandwidth() > 0 ? lane.Bandwidth() : kAssumedBandwidth;
}

// Whole pages where the block has them, for O_DIRECT.
Bytes CopySize(const c10::Storage& storage) {
  const Bytes size{static_cast<int64_t>(storage.nbytes())};
  const Bytes block = HostAllocator::Global().SizeOf(storage.data());
  return std::max(size, std::min(RoundUpToPage(size), block));
}

c10::Storage NewSavedStorage(size_t bytes) {
  const AllocationKind kind(Kind::kSaved);
  return NewStorage(bytes);
}

}  // namespace

bool SpillSlot::Ended(const std::shared_ptr<Transfer>& transfer) {
  const Transfer::State state = transfer->state();
  return state != Transfer::State::kQueued &&
         state != Transfer::State::kRunning;
}

SpillSlot::~SpillSlot() {
  for (const auto& transfer : {write_, read_}) {
    if (transfer != nullptr && !transfer->Cancel()) {
      transfer->Wait().IgnoreError();  // nobody wants the result any more
    }
  }
  // A child may still read what lies there.
  if (*forks_ == forks_before_) file_->Give(extent_);
}

HostTier::HostTier(std::unique_ptr<SpillFile> file)
    : file_(std::move(file)),
      out_("ebbtide-out", kInFlight),
      back_("ebbtide-back", kInFlight) {
  TransferLane::Pair(out_, back_);
}

absl::StatusOr<std::unique_ptr<HostTier>> HostTier::Open(
    const std::string& directory, Bytes limit) {
  auto file = SpillFile::Open(directory, limit);
  if (!file.ok()) return file.status();
  return std::unique_ptr<HostTier>(new HostTier(*std::move(file)));
}

absl::StatusOr<std::shared_ptr<SpillSlot>> HostTier::StartWrite(
    const c10::Storage& bytes, absl::string_view what) {
  const Bytes size = CopySize(bytes);
  auto extent = file_->Take(size);
  if (!extent.ok()) return extent.status();
  auto slot = std::make_shared<SpillSlot>(file_.get(), *extent, size,
                                          bytes.nbytes(), what, &forks_);
  auto transfer = out_.Submit(size, [file = file_.get(), at = *extent,
                                     from = bytes.data(), size, what] {
    const LogSpan span(SpanKind::kOffload, what, Count(size));
    return file->Write(at, from, size);
  });
  if (!transfer.ok()) return transfer.status();
  slot->write_ = *std::move(transfer);
  bytes_written_ += size;
  return slot;
}

absl::Status HostTier::FinishWrite(SpillSlot* slot) {
  return slot->write_->Wait();
}

absl::Status HostTier::StartRead(SpillSlot* slot) {
  if (in_child_) {
    return absl::FailedPreconditionError("a child of fork has no lanes");
  }
  slot->incoming_ = NewSavedStorage(slot->used_);
  auto transfer =
      back_.Submit(slot->size_, [file = file_.get(), at = slot->extent_,
                                 to = slot->incoming_.mutable_data(),
                                 size = slot->size_, what = slot->what_] {
        const LogSpan span(SpanKind::kRestore, what, Count(size));
        return file->Read(at, to, size);
      });
  if (!transfer.ok()) return transfer.status();
  slot->read_ = *std::move(transfer);
  return absl::OkStatus();
}

void HostTier::CancelRead(SpillSlot* slot) {
  if (!slot->read_->Cancel()) slot->read_->Wait().IgnoreError();
  slot->read_.reset();
  slot->incoming_ = c10::Storage();
}

absl::StatusOr<c10::Storage> HostTier::ReadInChild(const SpillSlot& slot) {
  c10::Storage bytes = NewSavedStorage(slot.used_);
  const absl::Status read =
      file_->Read(slot.extent_, bytes.mutable_data(), slot.size_);
  if (!read.ok()) return read;
  return bytes;
}

absl::StatusOr<c10::Storage> HostTier::FinishRead(SpillSlot* slot) {
  if (in_child_) return ReadInChild(*slot);
  if (slot->read_ == nullptr) {
    const absl::Status started = StartRead(slot);
    if (!started.ok()) return started;
  }
  const absl::Status read = slot->read_->Wait();
  slot->read_.reset();
  c10::Storage bytes = std::move(slot->incoming_);
  slot->incoming_ = c10::Storage();
  if (!read.ok()) return read;
  return bytes;
}

double HostTier::WriteBandwidth() const { return Measured(out_); }
double HostTier::ReadBandwidth() const { return Measured(back_); }

double HostTier::CostPerByte() const {
  return 1e9 / WriteBandwidth() + 1e9 / ReadBandwidth();
}

}  // namespace ebbtide
