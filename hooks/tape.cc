#include "hooks/tape.h"

#include <algorithm>

#include "hooks/device.h"
#include "hooks/guarded.h"
#include "hooks/outside.h"

namespace ebbtide {
namespace {

size_t least_managed = 64 << 10;

}  // namespace

size_t LeastManaged() { return least_managed; }
void SetLeastManaged(size_t bytes) { least_managed = bytes; }

void SetGeometry(const at::Tensor& tensor, Geometry* geometry) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  geometry->sizes.assign(sizes.begin(), sizes.end());
  geometry->strides.assign(strides.begin(), strides.end());
  geometry->offset = impl->storage_offset();
  geometry->keys = impl->key_set();
  geometry->dtype = impl->dtype();
}

at::Tensor MakeTensor(const c10::Storage& storage, const Geometry& geometry) {
  // Autograd keys are added by the constructor as inference mode demands; a
  // tensor made here is never an inference tensor.
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      geometry.keys - c10::autograd_dispatch_keyset -
          c10::autocast_dispatch_keyset,
      geometry.dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      geometry.sizes, geometry.strides, geometry.offset);
  return tensor;
}

at::Tensor FlatTensor(const c10::Storage& storage, at::ScalarType type,
                      int64_t offset, int64_t count) {
  Geometry geometry;
  geometry.sizes = {count};
  geometry.strides = {1};
  geometry.offset = offset;
  geometry.keys = c10::DispatchKeySet(
      c10::computeDispatchKey(type, at::kStrided, storage.device()));
  geometry.dtype = c10::scalarTypeToTypeMeta(type);
  return MakeTensor(storage, geometry);
}

bool IsPlainTensor(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  if (tensor.layout() != c10::kStrided ||
      tensor.device().type() != Device::Get().type()) {
    return false;
  }
  static const c10::DispatchKeySet kForeign(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::ZeroTensor, c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::Batched,
       c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Fake});
  if (tensor.key_set().has_any(kForeign) || tensor.is_inference()) {
    return false;
  }
  return !tensor.is_quantized();
}

absl::Span<Argument> Tape::AddArguments(size_t count) {
  constexpr size_t kBlock = 256;
  if (argument_blocks.empty() ||
      argument_blocks.back().capacity() - argument_blocks.back().size() <
          count) {
    argument_blocks.emplace_back().reserve(std::max(kBlock, count));
  }
  std::vector<Argument>& block = argument_blocks.back();
  block.resize(block.size() + count);
  return absl::MakeSpan(block).last(count);
}

void Tape::Reserve(const Tape& last) {
  ops.reserve(last.ops.size());
  storages.reserve(last.storages.size());
  by_identity.reserve(last.by_identity.size());
  saves.reserve(last.saves.size());
  size_t arguments = 0;
  for (const auto& block : last.argument_blocks) arguments += block.size();
  argument_blocks.emplace_back().reserve(arguments);
}

Tape::~Tape() {
  for (const TapeStorage& storage : storages) {
    if (storage.watched != nullptr) Unguard(storage.watched);
  }
}

int Tape::Find(const c10::Storage& storage) const {
  auto entry = by_identity.find(storage.unsafeGetStorageImpl());
  return entry == by_identity.end() ? -1 : entry->second;
}

namespace {

int AddStorage(const c10::Storage& storage, Tape* tape) {
  const int index = tape->storages.size();
  TapeStorage& added = tape->storages.emplace_back();
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  added.identity = c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(
          impl));
  added.bytes = storage.nbytes();
  added.device = Device::IndexOf(storage);
  tape->by_identity[impl] = index;
  return index;
}

}  // namespace

int Tape::FindOrAdd(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const int known = Find(storage);
  if (known >= 0 && !IsAnotherInput(storage, storages[known])) return known;
  const int index = AddStorage(storage, this);
  TapeStorage& added = storages[index];
  added.external = true;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  added.version = impl->version_counter();
  added.version_number = added.version->current_version();
  const bool leaf = tensor.requires_grad() && tensor.is_leaf();
  added.parameter = leaf;
  if (leaf) WatchBlock(storage, &added);
  NoteExternal(storage, leaf, &added);
  if (leaf) {
    added.captured = true;
    added.data = storage;
  }
  return index;
}

void Tape::HoldInput(int index, const c10::Storage& storage) {
  TapeStorage& input = storages[index];
  if (!input.external || input.captured || input.bytes >= kSmallStorage) return;
  input.version_number = input.version->current_version();
  input.captured = true;
  input.data = storage;
}

int Tape::AddUnknown(const c10::Storage& storage) {
  return AddStorage(storage, this);
}

const Gaps* GapsOf(const Tape& tape, int storage) {
  const auto& writers = tape.storages[storage].writers;
  if (writers.size() != 1) return nullptr;
  const TapeOp& op = tape.ops[writers[0]];
  if (op.gaps == nullptr) return nullptr;
  const auto output = std::find(op.outputs.begin(), op.outputs.end(), storage);
  if (output == op.outputs.end()) return nullptr;
  return &(*op.gaps)[output - op.outputs.begin()];
}

int Tape::AddProduced(const c10::Storage& storage, int op) {
  const int index = AddStorage(storage, this);
  storages[index].writers.push_back(op);
  return index;
}

}  // namespace ebbtide
