#include "hooks/weights.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "hooks/device.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

constexpr char kAway[] =
    "ebbtide: these bytes are on the host (EBBTIDE_WEIGHTS=1), and no op has "
    "said that it reads them";

// PyTorch sets the flag that makes every access raise, but never clears it. An
// explicit instantiation may name a private member, and so we get at it.
template <bool c10::StorageImpl::*member>
struct RaisesMember {
  friend bool& Raises(c10::StorageImpl& storage) { return storage.*member; }
};
bool& Raises(c10::StorageImpl& storage);
template struct RaisesMember<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

c10::Storage Lock(const Weight& weight) {
  return c10::Storage(weight.identity.lock());
}

// While it lives, memory is allocated, and work queued, on the weight's stream.
class OnStream {
 public:
  explicit OnStream(const Weight& weight) {
    if (weight.stream) guard_.emplace(*weight.stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

// In no graph: neither made by a differentiable op nor a leaf of one.
bool IsOutsideGraphs(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr ||
         (meta->grad_fn_ == nullptr && !meta->requires_grad_);
}

bool IsLeafToTrain(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->grad_fn_ == nullptr && meta->requires_grad_;
}

}  // namespace

bool IsAway(const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  // PyTorch's own fake storages raise, too, but have never had memory of ours.
  return Raises(*impl) && impl->_mutable_data_ptr_no_checks().get() == nullptr;
}

void Weights::Start(Seams seams) {
  seams_ = std::move(seams);
  is_on_ = true;
}

void Weights::Stop(const std::string& why) {
  if (!is_on_) return;
  is_on_ = false;
  stopped_because_ = why;
  seams_.say(absl::StrCat("weights stay on the device: ", why));
}

void Weights::LeaveTier() {
  is_on_ = false;
  for (const auto& [impl, weight] : weights_) {
    const c10::Storage storage = Lock(*weight);
    if (storage && weight->slot != nullptr) Restore(weight.get(), storage);
    weight->slot.reset();
  }
  weights_.clear();
  sizes_.clear();
  reserve_.clear();
  reserved_sizes_.clear();
}

std::shared_ptr<Weight> Weights::Find(const c10::Storage& storage) const {
  const auto found = weights_.find(storage.unsafeGetStorageImpl());
  return found == weights_.end() ? nullptr : found->second;
}

std::shared_ptr<Weight> Weights::Add(const c10::Storage& storage) {
  std::shared_ptr<Weight>& weight = weights_[storage.unsafeGetStorageImpl()];
  if (weight == nullptr) {
    weight = std::make_shared<Weight>(
        Weight{.identity = c10::weak_intrusive_ptr<c10::StorageImpl>(
                   storage.getWeakStorageImpl())});
  }
  return weight;
}

void Weights::Note(const at::Tensor& tensor) {
  if (!is_on_ || !IsPlainTensor(tensor)) return;
  const c10::Storage& storage = tensor.storage();
  if (storage.nbytes() < LeastManaged()) return;
  std::shared_ptr<Weight> weight = Find(storage);
  const bool is_parameter = IsLeafToTrain(tensor);
  if (weight == nullptr) {
    if (is_parameter) sizes_.insert(storage.nbytes());
    const bool is_like_one =
        IsOutsideGraphs(tensor) && sizes_.contains(storage.nbytes());
    if (!is_parameter && !is_like_one) return;
    weight = Add(storage);
  }
  if (Device::Get().is_async() && !weight->stream) {
    weight->stream = Device::Get().CurrentStream(Device::IndexOf(storage));
  }
  NoteUse(weight.get(), is_parameter);
}

void Weights::NoteUse(Weight* weight, bool is_parameter) {
  if (is_parameter) {
    if (!at::GradMode::is_enabled()) {
      round_may_begin_ = true;
    } else if (std::exchange(round_may_begin_, false)) {
      BeginRound();
    }
  }
  // Jobs whose rounds never end are known by their last uses alone.
  constexpr size_t kMost = 256;
  if (weight->uses.size() >= kMost) {
    weight->uses.erase(weight->uses.begin());
  }
  weight->uses.push_back(now_++);
}

void Weights::BeginRound() {
  absl::erase_if(weights_, [](const auto& entry) {
    return entry.second->identity.expired() && entry.second->pins == 0;
  });
  for (const auto& [impl, weight] : weights_) {
    weight->last_uses = std::exchange(weight->uses, {});
  }
  last_round_ = std::exchange(now_, 0);
}

std::shared_ptr<Weight> Weights::Pin(const c10::Storage& storage) {
  std::shared_ptr<Weight> weight = Find(storage);
  if (weight == nullptr) return nullptr;
  ++weight->pins;
  if (weight->slot != nullptr) Restore(weight.get(), storage);
  if (Device::Get().is_async()) UseHere(weight.get(), storage);
  return weight;
}

void Weights::UseHere(Weight* weight, const c10::Storage& storage) {
  Device& device = Device::Get();
  const c10::Stream here = device.CurrentStream(Device::IndexOf(storage));
  if (!weight->stream) weight->stream = here;
  if (device.MayBeCapturing() && device.IsCapturing()) weight->exposed = true;
  if (here == *weight->stream) return;
  weight->exposed = true;
  if (!weight->was_away || IsAway(storage)) return;
  device.Order(*weight->stream, here);
  device.KeepFor(storage, here);
}

void Weights::Expose(const c10::Storage& storage) {
  if (!is_on_ && Find(storage) == nullptr) return;
  const std::shared_ptr<Weight> weight = Add(storage);
  weight->exposed = true;
  if (weight->slot != nullptr) Restore(weight.get(), storage);
}

bool Weights::Manages(const c10::Storage& storage) const {
  const std::shared_ptr<Weight> weight = Find(storage);
  return weight != nullptr && !weight->exposed;
}

bool Weights::MayGo(const Weight& weight, const c10::Storage& storage) const {
  return storage && weight.slot == nullptr && weight.pins == 0 &&
         !weight.exposed && storage.resizable() && !IsAway(storage) &&
         storage.nbytes() >= LeastManaged() &&
         weight.stream.has_value() == Device::Get().is_async() &&
         Device::Get().IsReclaimable(storage) && !seams_.is_busy(storage);
}

int64_t Weights::Distance(const Weight& weight) const {
  for (const int64_t use : weight.last_uses) {
    if (use >= now_) return use - now_;
  }
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
  const int64_t age = weight.uses.empty() ? now_ : now_ - weight.uses.back();
  if (weight.last_uses.empty()) return kFar + age;
  return std::max<int64_t>(last_round_ - now_, 0) + weight.last_uses.front();
}

std::shared_ptr<Weight> Weights::BestVictim(int device) const {
  std::shared_ptr<Weight> best;
  int64_t furthest = -1;
  for (const auto& [impl, weight] : weights_) {
    if (weight->slot != nullptr || weight->pins > 0) continue;
    const int64_t distance = Distance(*weight);
    if (distance <= furthest) continue;
    const c10::Storage storage = Lock(*weight);
    if (!MayGo(*weight, storage)) continue;
    if (Device::IndexOf(storage) != device) continue;
    furthest = distance;
    best = weight;
  }
  return best;
}

std::shared_ptr<Weight> Weights::NextAway() const {
  std::shared_ptr<Weight> next;
  int64_t soonest = std::numeric_limits<int64_t>::max();
  for (const auto& [impl, weight] : weights_) {
    if (weight->slot == nullptr || weight->last_uses.empty()) continue;
    const int64_t distance = Distance(*weight);
    if (distance >= soonest || weight->identity.expired()) continue;
    soonest = distance;
    next = weight;
  }
  return next;
}

bool Weights::MakeRoomFor(const Weight& next, const c10::Storage& storage) {
  const int device = Device::IndexOf(storage);
  const Bytes bytes = Device::Get().SizeOnDevice(storage.nbytes());
  while (!Device::Get().FindsRoom(device, bytes)) {
    const std::shared_ptr<Weight> victim = BestVictim(device);
    if (victim == nullptr || Distance(*victim) <= Distance(next)) return false;
    if (!Evict(victim.get())) return false;
  }
  return true;
}

void Weights::Reserve(int device, const std::vector<size_t>& sizes) {
  if (!is_on_ || !Device::Get().is_async() || counts_.bytes_out == 0) return;
  const auto sum = [](const std::vector<size_t>& all) {
    return std::accumulate(all.begin(), all.end(), size_t{0});
  };
  if (sum(sizes) > sum(reserved_sizes_)) {
    reserved_sizes_ = sizes;
    reserve_.assign(sizes.size(), c10::Storage());
  }
  for (size_t i = 0; i < reserve_.size(); ++i) {
    if (reserve_[i]) continue;
    const Bytes needed{static_cast<int64_t>(reserved_sizes_[i])};
    if (!Device::Get().FindsRoom(device, needed) &&
        !Relieve({.device = device, .needed = needed})) {
      return;
    }
    try {
      reserve_[i] = Device::Get().Allocate(reserved_sizes_[i], device);
    } catch (const c10::OutOfMemoryError&) {
      return;  // later, then
    }
  }
}

bool Weights::GiveUpReserve() {
  const auto piece =
      std::find_if(reserve_.begin(), reserve_.end(),
                   [](const c10::Storage& held) { return bool{held}; });
  if (piece == reserve_.end()) return false;
  *piece = c10::Storage();
  return true;
}

void Weights::Prefetch() {
  if (!is_on_) return;
  const std::shared_ptr<Weight> coming = coming_.lock();
  if (coming != nullptr && coming->slot != nullptr) return;
  const std::shared_ptr<Weight> next = NextAway();
  if (next == nullptr) return;
  const c10::Storage storage = Lock(*next);
  if (!storage || !MakeRoomFor(*next, storage)) return;
  const OnStream there(*next);
  const absl::Status started = seams_.tier->StartRead(next->slot.get());
  if (!started.ok()) return Stop(std::string(started.message()));
  coming_ = next;
}

bool Weights::CancelPrefetch() {
  const std::shared_ptr<Weight> coming = coming_.lock();
  coming_.reset();
  if (coming == nullptr || coming->slot == nullptr || coming->pins > 0 ||
      !coming->slot->IsReading()) {
    return false;
  }
  seams_.tier->CancelRead(coming->slot.get());
  return true;
}

bool Weights::Relieve(const Pressure& pressure) {
  Bytes gone{};
  const auto is_enough = [&] {
    return Device::Get().is_async()
               ? Device::Get().FindsRoom(pressure.device, pressure.needed)
               : gone >= pressure.needed;
  };
  while (is_on_) {
    const std::shared_ptr<Weight> victim = BestVictim(pressure.device);
    if (victim == nullptr) break;
    const c10::Storage storage = Lock(*victim);
    if (!Evict(victim.get())) break;
    gone += Device::Get().SizeOnDevice(storage.nbytes());
    if (is_enough()) break;
  }
  return gone > Bytes{0} || CancelPrefetch() || GiveUpReserve();
}

// Copied anew each time: who writes through a pointer is not seen, so a copy
// from before may be an old one.
bool Weights::Evict(Weight* weight) {
  const c10::Storage storage = Lock(*weight);
  auto slot = seams_.tier->StartWrite(storage, "weights", weight->stream);
  if (!slot.ok()) {
    // Pinned memory that copies are still leaving is free again later.
    const bool may_pass =
        Device::Get().is_async() && absl::IsResourceExhausted(slot.status());
    if (!may_pass) Stop(std::string(slot.status().message()));
    return false;
  }
  const absl::Status written = seams_.tier->FinishWrite(slot->get());
  if (!written.ok()) {
    Stop(std::string(written.message()));
    return false;
  }
  // It may have been allocated on another one.
  if (weight->stream) Device::Get().KeepFor(storage, *weight->stream);
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const c10::DataPtr bytes =
      std::move(impl->_mutable_data_ptr_no_checks());  // freed at the end
  impl->set_data_ptr_noswap(c10::DataPtr(nullptr, bytes.device()));
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_(kAway);
  weight->slot = *std::move(slot);
  weight->was_away = true;
  counts_.bytes_out += static_cast<int64_t>(storage.nbytes());
  return true;
}

void Weights::Restore(Weight* weight, const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  absl::StatusOr<c10::Storage> bytes = c10::Storage();
  try {
    // Making room for it may evict others, and must not meet it half restored.
    ++weight->pins;
    const auto unpin = absl::MakeCleanup([weight] { --weight->pins; });
    const OnStream there(*weight);
    bytes = seams_.tier->FinishRead(weight->slot.get());
  } catch (const c10::OutOfMemoryError& error) {
    // The op raises it, as if the memory had been for its result. Later, where
    // less is alive, there may be room.
    impl->release_data_and_set_meta_custom_data_ptr_error_msg_(
        error.what_without_backtrace());
    return;
  }
  if (!bytes.ok()) {
    Stop(absl::StrCat("bytes of one are lost, its next use raises: ",
                      bytes.status().message()));
    return;
  }
  Raises(*impl) = false;
  impl->set_data_ptr_noswap(
      std::move(bytes->unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
  weight->slot.reset();
  Device::Get()
      .ledger(Device::IndexOf(storage))
      .Retag(storage.data(), Kind::kParameter);
  counts_.bytes_back += static_cast<int64_t>(storage.nbytes());
}

}  // namespace ebbtide
