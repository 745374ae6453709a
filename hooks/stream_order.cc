#include "hooks/stream_order.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

bool IsKnown(const TapeStorage& storage, const c10::Stream& stream) {
  return std::find(storage.streams.begin(), storage.streams.end(), stream) !=
         storage.streams.end();
}

void NoteUse(const c10::Stream& stream, TapeStorage* storage) {
  if (!IsKnown(*storage, stream)) storage->streams.push_back(stream);
}

void KeepForUsers(const TapeStorage& storage) {
  // A storage that one stream alone has made and used is freed to that stream.
  const bool made_elsewhere = storage.external || storage.writers.empty();
  if (storage.streams.size() < 2 && !made_elsewhere) return;
  for (const c10::Stream& user : storage.streams) {
    Device::Get().KeepFor(storage.data, user);
  }
}

}  // namespace

namespace internal {

void UseHere(TapeStorage* storage) {
  Device& device = Device::Get();
  const c10::Stream here = device.CurrentStream(storage->device);
  if (IsKnown(*storage, here)) return;
  for (const c10::Stream& user : storage->streams) device.Order(user, here);
  storage->streams.push_back(here);
}

void NoteMadeHere(TapeStorage* storage) {
  storage->streams.assign(1, Device::Get().CurrentStream(storage->device));
}

void NoteUses(Tape* tape, int index) {
  const TapeOp& op = tape->ops[index];
  const c10::Stream stream = Device::Get().CurrentStream(op.device);
  for (const Argument& argument : op.arguments) {
    for (const TensorArgument& t : argument.tensors) {
      if (t.storage >= 0) NoteUse(stream, &tape->storages[t.storage]);
    }
  }
  for (int i = static_cast<int>(tape->storages.size()) - 1; i >= 0; --i) {
    TapeStorage& made = tape->storages[i];
    if (made.writers.empty() || made.writers[0] != index) break;
    NoteUse(stream, &made);
  }
}

}  // namespace internal

c10::Storage LetGo(TapeStorage* storage) {
  if (Device::Get().is_async() && storage->data) {
    KeepForUsers(*storage);
  }
  return std::exchange(storage->data, c10::Storage());
}

std::optional<c10::Stream> MakerStream(TapeStorage* storage) {
  if (!Device::Get().is_async()) return std::nullopt;
  if (storage->streams.size() == 1) return storage->streams.front();
  UseHere(storage);
  return Device::Get().CurrentStream(storage->device);
}

}  // namespace ebbtide
