#include "hooks/weights.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hooks/device.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

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

void Weights::LeaveTier(const std::string& why) {
  Stop(why);
  for (const auto& [impl, weight] : weights_) {
    const c10::Storage storage = Lock(*weight);
    if (storage && weight->slot != nullptr) Restore(weight.get(), storage);
    weight->slot.reset();
  }
  weights_.clear();
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
  return weight;
}

void Weights::Expose(const c10::Storage& storage) {
  if (!is_on_ && Find(storage) == nullptr) return;
  const std::shared_ptr<Weight> weight = Add(storage);
  if (saving_ > 0 && !weight->exposed) exposed_to_save_.push_back(weight);
  weight->exposed = true;
  if (weight->slot != nullptr) Restore(weight.get(), storage);
}

void Weights::EndSaving() {
  if (--saving_ > 0) return;
  for (const auto& weak : std::exchange(exposed_to_save_, {})) {
    if (const auto weight = weak.lock()) weight->exposed = false;
  }
}

bool Weights::MayGo(const Weight& weight, const c10::Storage& storage) const {
  return storage && weight.slot == nullptr && weight.pins == 0 &&
         !weight.exposed && storage.resizable() && !IsAway(storage) &&
         storage.nbytes() >= LeastManaged() &&
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

std::shared_ptr<Weight> Weights::BestVictim() const {
  std::shared_ptr<Weight> best;
  int64_t furthest = -1;
  for (const auto& [impl, weight] : weights_) {
    if (weight->slot != nullptr || weight->pins > 0) continue;
    const int64_t distance = Distance(*weight);
    if (distance <= furthest || !MayGo(*weight, Lock(*weight))) continue;
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
  const Ledger& ledger = Device::Get().ledger(Device::IndexOf(storage));
  const Bytes bytes = Device::Get().SizeOnDevice(storage.nbytes());
  while (ledger.WouldExceed(bytes)) {
    const std::shared_ptr<Weight> victim = BestVictim();
    if (victim == nullptr || Distance(*victim) <= Distance(next)) return false;
    if (!Evict(victim.get())) return false;
  }
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

bool Weights::Relieve(Bytes needed) {
  Bytes gone{};
  while (is_on_ && gone < needed) {
    const std::shared_ptr<Weight> victim = BestVictim();
    if (victim == nullptr) break;
    const c10::Storage storage = Lock(*victim);
    if (!Evict(victim.get())) break;
    gone += Device::Get().SizeOnDevice(storage.nbytes());
  }
  return gone > Bytes{0} || CancelPrefetch();
}

// Copied anew each time: who writes through a pointer is not seen, so a copy
// from before may be an old one.
bool Weights::Evict(Weight* weight) {
  const c10::Storage storage = Lock(*weight);
  auto slot = seams_.tier->StartWrite(storage, "weights", std::nullopt);
  if (!slot.ok()) {
    Stop(std::string(slot.status().message()));
    return false;
  }
  const absl::Status written = seams_.tier->FinishWrite(slot->get());
  if (!written.ok()) {
    Stop(std::string(written.message()));
    return false;
  }
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const c10::DataPtr bytes =
      std::move(impl->_mutable_data_ptr_no_checks());  // freed at the end
  Raises(*impl) = true;
  impl->set_data_ptr_noswap(c10::DataPtr(nullptr, bytes.device()));
  weight->slot = *std::move(slot);
  counts_.bytes_out += static_cast<int64_t>(storage.nbytes());
  return true;
}

void Weights::Restore(Weight* weight, const c10::Storage& storage) {
  // Making room for it may evict others, and must not meet it half restored.
  ++weight->pins;
  auto bytes = seams_.tier->FinishRead(weight->slot.get());
  --weight->pins;
  if (!bytes.ok()) {
    Stop(absl::StrCat("bytes of one are lost, its next use raises: ",
                      bytes.status().message()));
    return;
  }
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
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
