#include "hooks/file_tier.h"

#include <algorithm>
#include <utility>

#include "allocator/torch_cpu_allocator.h"
#include "hooks/run_log.h"

namespace ebbtide {
namespace {

// Before the first copy was measured: a plain SATA disk.
constexpr double kAssumedBandwidth = 500e6;

// Both windows count against the budget while they are full.
constexpr Bytes kInFlight{64 << 20};

HostTier::CopyRates RatesOf(const TransferLane& lane) {
  const double recent = lane.RecentBandwidth();
  return {.alone = lane.Bandwidth(),
          .contended = lane.ContendedBandwidth(),
          .planned = recent > 0 ? recent : kAssumedBandwidth};
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

bool Ended(const std::shared_ptr<Transfer>& transfer) {
  const Transfer::State state = transfer->state();
  return state != Transfer::State::kQueued &&
         state != Transfer::State::kRunning;
}

}  // namespace

class FileTier::Slot final : public SpillSlot {
 public:
  // `size` bytes are copied, of which a storage has the first `used`. `value`:
  // in the trace. `forks`: how often the process has forked, counted there.
  Slot(SpillFile* file, Extent extent, Bytes size, size_t used,
       absl::string_view what, int64_t value, const int* forks)
      : file_(file),
        extent_(extent),
        size_(size),
        used_(used),
        what_(what),
        value_(value),
        forks_(forks),
        forks_before_(*forks) {}

  ~Slot() override {
    for (const auto& transfer : {write_, read_}) {
      if (transfer != nullptr && !transfer->Cancel()) {
        transfer->Wait().IgnoreError();  // the result is not needed any more
      }
    }
    // A child may still read what lies there.
    if (*forks_ == forks_before_) file_->Give(extent_);
  }

  bool IsWritten() const override { return Ended(write_); }
  bool IsReading() const override { return read_ != nullptr; }

 private:
  friend class FileTier;

  SpillFile* const file_;
  const Extent extent_;
  const Bytes size_;
  const size_t used_;
  const absl::string_view what_;
  const int64_t value_;
  const int* const forks_;
  const int forks_before_;
  std::shared_ptr<Transfer> write_;
  std::shared_ptr<Transfer> read_;
  c10::Storage incoming_;
};

FileTier::FileTier(std::unique_ptr<SpillFile> file)
    : file_(std::move(file)),
      out_("ebbtide-out", kInFlight),
      back_("ebbtide-back", kInFlight) {
  TransferLane::Pair(out_, back_);
}

absl::StatusOr<std::unique_ptr<FileTier>> FileTier::Open(
    const std::string& directory, Bytes limit) {
  auto file = SpillFile::Open(directory, limit);
  if (!file.ok()) return file.status();
  return std::unique_ptr<FileTier>(new FileTier(*std::move(file)));
}

absl::StatusOr<std::shared_ptr<SpillSlot>> FileTier::StartWrite(
    const c10::Storage& bytes, absl::string_view what,
    const std::optional<c10::Stream>& /*maker*/) {
  const Bytes size = CopySize(bytes);
  auto extent = file_->Take(size);
  if (!extent.ok()) return extent.status();
  auto slot =
      std::make_shared<Slot>(file_.get(), *extent, size, bytes.nbytes(), what,
                             RunLog::Global().BlockAt(bytes.data()), &forks_);
  auto transfer =
      out_.Submit(size, [file = file_.get(), at = *extent, from = bytes.data(),
                         size, what, value = slot->value_] {
        const LogSpan span(SpanKind::kOffload, what, Count(size), value);
        return file->Write(at, from, size);
      });
  if (!transfer.ok()) return transfer.status();
  slot->write_ = *std::move(transfer);
  return slot;
}

absl::Status FileTier::FinishWrite(SpillSlot* slot) {
  return static_cast<Slot*>(slot)->write_->Wait();
}

absl::Status FileTier::StartRead(SpillSlot* started) {
  if (in_child_) {
    return absl::FailedPreconditionError("a child of fork has no lanes");
  }
  auto* const slot = static_cast<Slot*>(started);
  slot->incoming_ = NewSavedStorage(slot->used_);
  auto transfer = back_.Submit(
      slot->size_, [file = file_.get(), at = slot->extent_,
                    to = slot->incoming_.mutable_data(), size = slot->size_,
                    what = slot->what_, value = slot->value_] {
        const LogSpan span(SpanKind::kRestore, what, Count(size), value);
        return file->Read(at, to, size);
      });
  if (!transfer.ok()) return transfer.status();
  slot->read_ = *std::move(transfer);
  return absl::OkStatus();
}

void FileTier::CancelRead(SpillSlot* cancelled) {
  auto* const slot = static_cast<Slot*>(cancelled);
  if (!slot->read_->Cancel()) slot->read_->Wait().IgnoreError();
  slot->read_.reset();
  slot->incoming_ = c10::Storage();
}

absl::StatusOr<c10::Storage> FileTier::ReadInChild(const Slot& slot) {
  c10::Storage bytes = NewSavedStorage(slot.used_);
  const absl::Status read =
      file_->Read(slot.extent_, bytes.mutable_data(), slot.size_);
  if (!read.ok()) return read;
  return bytes;
}

absl::StatusOr<c10::Storage> FileTier::FinishRead(SpillSlot* finished) {
  auto* const slot = static_cast<Slot*>(finished);
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

HostTier::CopyRates FileTier::WriteRates() const { return RatesOf(out_); }
HostTier::CopyRates FileTier::ReadRates() const { return RatesOf(back_); }

}  // namespace ebbtide
