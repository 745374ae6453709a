// Packing and unpacking of saved tensors.
#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "hooks/busy.h"
#include "hooks/device.h"
#include "hooks/recovery.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "hooks/stream_order.h"
#include "hooks/twin.h"

namespace ebbtide {

// Inside a pair the driver is asked only where PyTorch may be capturing.
bool Runtime::IsCapturing() const {
  Device& device = Device::Get();
  if (!device.is_async()) return false;
  return (!in_pair_ || device.MayBeCapturing()) && device.IsCapturing();
}

std::optional<int> Runtime::NextSave() {
  if (in_pair_ && owner_.load() != std::this_thread::get_id()) {
    ++foreign_saves_;
    return std::nullopt;
  }
  // Also for the owner of the pair: the thread that runs its backward may end
  // it at any time, and a third begin the next.
  const RuntimeLock lock;
  const Busy busy;
  if (is_new_child_) TrainInChild();
  if (IsCapturing()) return std::nullopt;
  if (state_ == State::kIdle) Wake();
  if (!IsManaging()) return std::nullopt;
  const bool was_recording = IsRecorderEnabled();
  // As in TapeFor, where the recorder is off.
  if (in_backward_ && torch::autograd::get_current_graph_task_id() == -1) {
    EndPair();
  }
  if (!in_pair_) {
    BeginPair();
    // The ops before this save were not seen.
    if (!was_recording && !IsUnrecorded()) is_partial_ = true;
    if (IsRecorderPaused()) optimizers_train_ = true;
  }
  // Not in a pair: the runtime went idle after the last one.
  if (!in_pair_ || owner_.load() != std::this_thread::get_id()) {
    return std::nullopt;
  }
  if (saves_ == 0) first_sequence_ = at::sequence_number::peek();
  const uint64_t sequence = at::sequence_number::peek() - first_sequence_;
  const int position = saves_++;
  if (steady_run_ == nullptr) {
    tape_->saves.push_back({.sequence = sequence});
    return position;
  }
  if (steady_run_->Reach(position)) SpillWhatIsDue(position);
  if (steady_run_->IsNative(position, sequence)) return std::nullopt;
  return position;
}

std::shared_ptr<Tape> Runtime::TapeForPack() {
  if (!IsManaging() || !in_pair_) return nullptr;
  return owner_.load() == std::this_thread::get_id() ? tape_ : nullptr;
}

// The storage of `tensor`, which is being saved, on the tape.
int Runtime::StorageToSave(Tape* tape, const at::Tensor& tensor) const {
  const c10::Storage& bytes = tensor.storage();
  if (const int known = tape->Find(bytes); known >= 0) return known;
  // Unseen inside an op: one of its outputs, or a temporary of its own; which
  // of them shows when it ends.
  const int op = CurrentOp(tape);
  if (op >= 0) {
    const int added = tape->AddProduced(bytes, op);
    tape->storages[added].copy_of = FindOverwritten(*tape, op, bytes);
    return added;
  }
  const bool leaf = tensor.is_leaf() && tensor.requires_grad();
  return IsUnrecorded() && !leaf ? tape->AddUnknown(bytes)
                                 : tape->FindOrAdd(tensor);
}

// Records a storage that autograd saves in the trace.
void Runtime::LogSave(TapeStorage* storage, const at::Tensor& tensor,
                      const void* parameter) {
  if (!RunLog::Global().TakesDetail() || storage->logged != kNoBlock) return;
  storage->logged = RunLog::Global().BlockAt(storage->data.data());
  RunLog::Global().NoteShape(storage->logged, tensor);
  RunLog::Global().NoteMaker(storage->logged, storage->maker);
  storage->behind = parameter;
  RunLog::Global().NoteLayer(storage->logged, parameter);
}

int Runtime::Remember(Tape* tape, const at::Tensor& tensor, int position) {
  const c10::Storage& bytes = tensor.storage();
  const bool is_custom = CurrentOp(tape) < 0;
  const int index = StorageToSave(tape, tensor);
  if (IsUnrecorded()) {
    steady_run_->Check(position, tensor, index);
    tape->storages[index].maker = steady_run_->MakerOf(position);
    tape->clock = position;
    FreeWhatIsDue();
  }
  TapeStorage& storage = tape->storages[index];
  if (!storage.data) storage.data = bytes;
  if (IsUnrecorded()) UseHere(&storage);
  ++storage.hooks;
  ++tape->hooks;
  const int op = static_cast<int>(tape->ops.size()) - 1;
  if (storage.last_pack < 0) storage.tagged = op;
  if (is_custom && !storage.parameter) storage.handed_over = op;
  if (storage.spill) tape->spilled_saves.insert(position);
  if (position >= static_cast<int>(tape->saves.size())) {
    tape->saves.resize(position + 1);
  }
  SaveMark& mark = tape->saves[position];
  mark.storage = index;
  mark.earlier = std::exchange(storage.last_pack, position);
  mark.op = op;
  mark.parameter =
      IsUnrecorded()
          ? steady_run_->ParameterBefore(position)
          : tape->parameters.Before(
                mark.sequence,
                storage.parameter ? bytes.unsafeGetStorageImpl() : nullptr);
  mark.elements = tensor.numel();
  mark.type = tensor.scalar_type();
  storage.packed_at = storage.needed_at = tape->clock;
  if (storage.bytes >= LeastManaged() && !storage.external) {
    Device::Get().ledger(storage.device).Retag(bytes.data(), Kind::kSaved);
    LogSave(&storage, tensor, mark.parameter);
  }
  return index;
}

std::pair<std::shared_ptr<Tape>, int> Runtime::RememberInBackward(
    const at::Tensor& tensor) {
  const c10::Storage& bytes = tensor.storage();
  if (!IsManaging() || !settings_.budget || bytes.nbytes() < LeastManaged() ||
      IsCapturing()) {
    return {};
  }
  std::shared_ptr<Tape> tape = tape_;
  int index = tape == nullptr ? -1 : tape->Find(bytes);
  // The program holds its inputs.
  if (index >= 0 && tape->storages[index].external) return {};
  if (index < 0) {
    if (backward_tape_ == nullptr) {
      backward_tape_ = std::make_shared<Tape>();
      backward_tape_->device = device_;
      backward_tape_->blind = true;
      residency_.Add(backward_tape_);
    }
    tape = backward_tape_;
    index = tape->Find(bytes);
    if (index < 0) index = tape->AddUnknown(bytes);
    tape->storages[index].packed_at = tape->storages[index].needed_at =
        ++tape->clock;
  }
  TapeStorage& storage = tape->storages[index];
  if (!storage.data) storage.data = bytes;
  UseHere(&storage);
  ++storage.hooks;
  ++tape->hooks;
  Device::Get().ledger(storage.device).Retag(bytes.data(), Kind::kSaved);
  return {std::move(tape), index};
}

void Runtime::LogUnpack(const TapeStorage& storage) {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return;
  // Finding a name takes longer than all the rest.
  if (node.get() != unpacking_) {
    unpacking_ = node.get();
    unpacking_name_ = node->name();
    if (steady_run_ != nullptr) RunLog::Global().EnterOp(unpacking_name_);
  }
  RunLog::Global().NoteUnpacked(storage.logged, unpacking_name_);
}

c10::Storage Runtime::Fetch(const std::shared_ptr<Tape>& tape, int index) {
  const WorkScope own = watch_.kernels().MarkOwn();
  if (tape == tape_ && !in_backward_ &&
      torch::autograd::get_current_graph_task_id() != -1) {
    BeginBackward();
  }
  if (tape == tape_ && in_backward_) {
    residency_.SetPosition(tape.get(), tape->storages[index].packed_at);
  }
  if (tape == tape_ && in_backward_) FollowAsk(index);
  if (RunLog::Global().TakesDetail()) LogUnpack(tape->storages[index]);
  c10::Storage bytes = residency_.Fetch(tape.get(), index);
  if (tape == tape_ && in_backward_ && steady_run_ == nullptr) {
    watch_.Give(/*was_there=*/!settings_.budget);
  }
  return bytes;
}

void Runtime::Forget(Tape* tape, int index) {
  --tape->storages[index].hooks;
  --tape->hooks;
  Settle(tape, index);
  // The graph was freed without a backward, so no other event ends the pair.
  if (tape == tape_.get() && tape->hooks == 0 && !in_backward_ &&
      CurrentOp(tape) < 0) {
    EndPair();
  }
}

}  // namespace ebbtide
