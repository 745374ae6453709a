// The runtime as the recorder's listener.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "allocator/allocation_kind.h"
#include "hooks/autograd_node.h"
#include "hooks/device.h"
#include "hooks/insist.h"
#include "hooks/outside.h"
#include "hooks/proving.h"
#include "hooks/replay.h"
#include "hooks/runtime.h"
#include "hooks/stream_order.h"
#include "hooks/twin.h"

namespace ebbtide {
namespace {

// Equal hashes: equal ops so far, on storages of equal indices.
uint64_t HashOp(const Tape& tape, const TapeOp& op) {
  uint64_t hash = absl::HashOf(tape.hash, op.signature);
  for (const Argument& argument : op.arguments) {
    for (const TensorArgument& t : argument.tensors) {
      hash = absl::HashOf(hash, t.storage);
      // A batch is a slice of a larger tensor as often as not: where an
      // external slice lies is an input, like its bytes.
      const bool external = t.storage >= 0 && tape.storages[t.storage].external;
      if (!external) hash = absl::HashOf(hash, t.geometry.offset);
    }
  }
  for (int output : op.outputs) {
    hash = absl::HashOf(hash, output);
    if (output >= 0) hash = absl::HashOf(hash, tape.storages[output].bytes);
  }
  return hash;
}

// True if the tensor covers all of its storage, so that overwriting it leaves
// no earlier byte.
bool CoversStorage(const TensorArgument& self, const TapeStorage& storage) {
  int64_t count = 1;
  int64_t reach = 1;
  for (size_t i = 0; i < self.geometry.sizes.size(); ++i) {
    count *= self.geometry.sizes[i];
    reach += (self.geometry.sizes[i] - 1) * self.geometry.strides[i];
  }
  return count == reach && self.geometry.offset == 0 &&
         count * self.geometry.dtype.itemsize() == storage.bytes;
}

// `written`: what an in-place op has returned.
std::optional<TapeStorage::Writer> WriterOf(const at::Tensor& written) {
  // Not by grad_fn(), which gives a written view a new maker, or throws.
  const auto* meta = torch::autograd::impl::get_autograd_meta(written);
  if (meta == nullptr || meta->grad_fn_ == nullptr) return std::nullopt;
  const auto* view = torch::autograd::impl::get_view_autograd_meta(written);
  if (view == nullptr || !view->has_bw_view()) {
    return TapeStorage::Writer{.variable = written.unsafeGetTensorImpl(),
                               .name = NameInErrors(*meta->grad_fn_)};
  }
  const at::Tensor& base = view->get_backward_view().base_;
  return TapeStorage::Writer{.variable = base.unsafeGetTensorImpl(),
                             .name = "torch::autograd::CopySlices"};
}

// Small memory without a value that was not read yet: held as an input in case
// it is filled without an op.
bool IsUntouchedEmpty(const Tape& tape, const TapeStorage& storage) {
  return storage.external && storage.writers.size() == 1 &&
         tape.ops[storage.writers[0]].info->uninitialized &&
         storage.hooks == 0 && storage.dependents == 0;
}

void AddWriter(Tape* tape, int op_index, const TensorArgument& argument) {
  TapeOp& op = tape->ops[op_index];
  TapeStorage& storage = tape->storages[argument.storage];
  const bool first = !op.arguments.empty() &&
                     !op.arguments[0].tensors.empty() &&
                     &argument == &op.arguments[0].tensors[0];
  const bool whole =
      first && op.info->overwrites && CoversStorage(argument, storage);
  if (whole && IsUntouchedEmpty(*tape, storage)) {
    storage.external = storage.captured = false;
    storage.version.reset();
    storage.data = c10::Storage();
  }
  if (whole && !storage.external) {
    op.fresh_self = true;
    storage.writers.clear();
    storage.opaque = false;
  }
  if (storage.external) {
    WatchBlock(c10::Storage(storage.identity.lock()), &storage);
  }
  if (op.info->opaque || op.foreign) storage.opaque = true;
  if (storage.writers.empty() || storage.writers.back() != op_index) {
    storage.writers.push_back(op_index);
  }
  // Copies in the offload file and for recipes are stale.
  if (storage.data) storage.spill.reset();
  storage.witness.reset();
  storage.copy = c10::Storage();
}

// To run it again what it overwrites must be there.
bool NeedsPreimage(const TapeOp& op) {
  return op.info->mutates && !op.info->batch_norm && !op.fresh_self &&
         !op.foreign;
}

// Autocast holds its casts of parameters for the ops that follow. The program
// never sees them, though that reference looks like one of the program's.
bool IsHeldByAutocast(const Tape& tape, const TapeOp& op) {
  if (!op.by_autocast || op.info->name != "_to_copy") return false;
  const auto& read = op.arguments[0].tensors;
  return read.size() == 1 && read[0].storage >= 0 &&
         tape.storages[read[0].storage].parameter;
}

}  // namespace

Tape* Runtime::TapeFor(absl::FunctionRef<bool()> may_begin) {
  if (!IsManaging() || (IsUnrecorded() && in_pair_)) return nullptr;
  if (in_pair_ && owner_.load() != std::this_thread::get_id()) return nullptr;
  // Before the driver is asked: an optimizer's ops come by here.
  if (!in_pair_ && !may_begin()) return nullptr;
  if (IsCapturing()) return nullptr;
  // Ops outside a graph task after a backward that never reported its end: an
  // exception has ended it.
  if (in_backward_) {
    EndPair();
    if (!may_begin()) return nullptr;
  }
  if (!in_pair_) BeginPair();
  // The last pair may have put us to sleep, or be the last one recorded.
  return in_pair_ && !IsUnrecorded() ? tape_.get() : nullptr;
}

std::unique_ptr<WorkScope> Runtime::OnOpBegin(Tape* tape, int index) {
  const TapeOp& op = tape->ops[index];
  if (op.info->mutates && !op.info->batch_norm) BeginWrites(tape, index);
  if (tape != tape_.get()) return nullptr;
  if (IsToBeTried(op) && !op.foreign && verifier_.MayRehearse(op) &&
      !HasRoomForTrial(*tape, op)) {
    const WorkScope own = watch_.kernels().MarkOwn();
    const AllocationKind scratch(Kind::kScratch);
    const Proving proving;
    verifier_.Rehearse(*tape, op);
  }
  watch_.BeginOp(op.info->name);
  tape->recording = tape_;
  return watch_.kernels().MarkOp();
}

void Runtime::BeginWrites(Tape* tape, int index) {
  const WorkScope own = watch_.kernels().MarkOwn();
  const TapeOp& op = tape->ops[index];
  for (const Argument& argument : op.arguments) {
    if (!argument.written) continue;
    for (const TensorArgument& t : argument.tensors) {
      if (t.storage < 0) continue;
      const c10::Storage written(tape->storages[t.storage].identity.lock());
      if (written) residency_.BeforeForeignWrite(written, tape);
      residency_.BeforeWrite(tape, t.storage);
      AddWriter(tape, index, t);
    }
  }
  if (!NeedsPreimage(op) || !IsToBeTried(op)) return;
  const AllocationKind scratch(Kind::kScratch);
  const Proving proving;
  try {
    preimage_ = Insist([&] {
      return Device::Get().CopyOf(c10::Storage(
          tape->storages[op.arguments[0].tensors[0].storage].identity.lock()));
    });
  } catch (const c10::OutOfMemoryError&) {
    // Another time.
  }
}

void Runtime::NoteOutputs(Tape* tape, int index, at::TensorList outputs) {
  TapeOp& op = tape->ops[index];
  for (const at::Tensor& tensor : outputs) {
    int& output = op.outputs.emplace_back(-1);
    if (!IsPlainTensor(tensor)) continue;
    int storage = tape->Find(tensor.storage());
    if (storage < 0) storage = tape->AddProduced(tensor.storage(), index);
    TapeStorage& made = tape->storages[storage];
    if (made.writers.empty() || made.writers.back() != index) continue;
    output = storage;
    if (IsHeldByAutocast(*tape, op)) made.trusted = true;
    if (op.info->mutates) {
      if (const auto writer = WriterOf(tensor)) {
        residency_.NoteWriter(tensor.storage(), *writer);
      }
    }
    // Memory that is filled without an op (torch.tensor does): small enough to
    // keep as an input of the ops that read it.
    if (op.info->uninitialized && made.bytes < kSmallStorage) {
      made.external = true;
      made.version = tensor.unsafeGetTensorImpl()->version_counter();
      if (op.grad_mode) tape->HoldInput(storage, tensor.storage());
    }
  }
  for (const Argument& argument : op.arguments) {
    if (!argument.written) continue;
    for (const TensorArgument& t : argument.tensors) {
      if (t.storage < 0) continue;
      TapeStorage& written = tape->storages[t.storage];
      if (written.external) {
        written.version_number = written.version->current_version();
      }
    }
  }
}

bool Runtime::IsToBeTried(const TapeOp& op) const {
  // An untried op is not verified, and no recipe contains it.
  return settings_.budget.has_value() && settings_.recompute && op.grad_mode &&
         verifier_.IsUnknown(op);
}

// Outputs of most ops take no more than what they read, and a trial as much
// again. A step that is over its budget anyhow has room (OnOverrun).
bool Runtime::HasRoomForTrial(const Tape& tape, const TapeOp& op) const {
  if (Device::Get().StepPeak(device_) > budget()) return true;
  if (verifier_.WasRefused(op)) return false;
  Bytes read{};
  for (const Argument& argument : op.arguments) {
    for (const TensorArgument& t : argument.tensors) {
      if (t.storage < 0) continue;
      read += Bytes{static_cast<int64_t>(tape.storages[t.storage].bytes)};
    }
  }
  return read == Bytes{} ||
         Device::Get().FindsRoom(device_, read + read + read);
}

// Views and ops without a tensor result are no part of any recipe.
bool Runtime::IsMoot(const Tape& tape, int index) const {
  const TapeOp& op = tape.ops[index];
  return index + 1 == static_cast<int>(tape.ops.size()) && !op.info->mutates &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [](int output) { return output < 0; }) &&
         (tape.storages.empty() || tape.storages.back().writers.empty() ||
          tape.storages.back().writers[0] != index);
}

void Runtime::OnOpEnd(Tape* tape, int index, at::TensorList outputs) {
  const WorkScope own = watch_.kernels().MarkOwn();
  const std::shared_ptr<Tape> recording = std::move(tape->recording);
  residency_.TakeDueWitnesses();
  NoteOutputs(tape, index, outputs);
  NoteUses(tape, index);
  if (IsMoot(*tape, index)) {
    tape->ops.pop_back();
    return;
  }
  tape->ops[index].version.reset();
  std::vector<int> copies;
  for (int i = static_cast<int>(tape->storages.size()) - 1; i >= 0; --i) {
    TapeStorage& storage = tape->storages[i];
    if (storage.writers.empty() || storage.writers[0] != index) break;
    const auto& made = tape->ops[index].outputs;
    if (std::find(made.begin(), made.end(), i) != made.end()) continue;
    // Saved inside the op, but not an output: no other op recomputes it.
    if (storage.copy_of >= 0 && tape == tape_.get()) {
      copies.push_back(i);
    } else {
      storage.opaque = true;
    }
  }
  // Its pair is over: nothing is measured, and nothing verified, any more.
  if (tape != tape_.get()) return;
  NoteOp(tape, index, outputs);
  for (int copy : copies) NoteCopy(tape, index, copy);
  residency_.Reap();
  residency_.SetPosition(tape, tape->clock);
  const int ops = tape->ops.size();
  for (int i = index; i < ops; ++i) FollowOp(i);
}

// Records measurements and proofs of an op that has just run.
void Runtime::NoteOp(Tape* tape, int index, at::TensorList outputs) {
  TapeOp& op = tape->ops[index];
  watch_.EndOp(index);
  if (expected_ != nullptr) expected_->EstimateTime(index, &op);
  tape->clock += op.nanoseconds;
  op.hash = tape->hash = HashOp(*tape, op);
  if (!op.foreign && !outputs.empty()) {
    if (!verifier_.Mark(&op) && IsToBeTried(op) &&
        (preimage_ || !NeedsPreimage(op))) {
      const AllocationKind scratch(Kind::kScratch);
      const Proving proving;
      verifier_.Try(*tape, op, outputs, preimage_);
      verifier_.Mark(&op);
    }
    // Without a budget nothing is evicted: profiles may hope for the best.
    if (!settings_.budget) op.verified = true;
  }
  preimage_ = c10::Storage();
}

void Runtime::NoteCopy(Tape* tape, int index, int copy) {
  const int first = tape->ops.size();
  if (!AddTwins(tape, index, copy)) {
    tape->storages[copy].opaque = true;
    return;
  }
  for (int i = first; i < static_cast<int>(tape->ops.size()); ++i) {
    tape->ops[i].hash = tape->hash = HashOp(*tape, tape->ops[i]);
  }
}

void Runtime::OnForeignWrite(const at::Tensor& tensor) {
  const WorkScope own = watch_.kernels().MarkOwn();
  if (residency_.BeforeForeignWrite(tensor.storage(), /*writer=*/nullptr) &&
      (torch::autograd::get_current_graph_task_id() != -1 ||
       owner_.load() != std::this_thread::get_id())) {
    writes_in_backward_ = true;
  }
}

void Runtime::OnUnseenWrite(const at::Tensor& tensor) {
  residency_.MarkRewritten(tensor.storage());
}

}  // namespace ebbtide
