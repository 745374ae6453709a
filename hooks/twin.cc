#include "hooks/twin.h"

#include <algorithm>
#include <utility>

#include "hooks/proofs.h"
#include "hooks/replay.h"

namespace ebbtide {
namespace {

// A storage that is written in place again and again would double the tape.
constexpr size_t kMostTwins = 16;

bool ReadsWhatItRead(const Tape& tape, int op, int except) {
  const TapeOp& taped = tape.ops[op];
  for (int i = 0; i < static_cast<int>(taped.arguments.size()); ++i) {
    if (!ReadsArgument(taped, i)) continue;
    for (const TensorArgument& t : taped.arguments[i].tensors) {
      if (t.storage < 0 || t.storage == except) continue;
      const TapeStorage& read = tape.storages[t.storage];
      if (!IsCurrentFor(read, op) || MayHaveChangedSince(read, op)) {
        return false;
      }
    }
  }
  return true;
}

TapeOp TwinOf(const TapeOp& op, int original, int copy, Tape* tape) {
  TapeOp twin = op;
  twin.arguments = tape->AddArguments(op.arguments.size());
  std::copy(op.arguments.begin(), op.arguments.end(), twin.arguments.begin());
  for (Argument& argument : twin.arguments) {
    for (TensorArgument& t : argument.tensors) {
      if (t.storage == original) t.storage = copy;
    }
  }
  for (int& output : twin.outputs) output = output == original ? copy : -1;
  return twin;
}

}  // namespace

int FindOverwritten(const Tape& tape, int op, const c10::Storage& bytes) {
  const TapeOp& taped = tape.ops[op];
  // Once its version has moved the op has written.
  if (!taped.version ||
      taped.version->current_version() != taped.version_number) {
    return -1;
  }
  const int index = taped.arguments[0].tensors[0].storage;
  if (index < 0) return -1;
  const TapeStorage& storage = tape.storages[index];
  if (storage.external || storage.opaque || storage.writers.size() < 2 ||
      storage.writers.back() != op || storage.bytes != bytes.nbytes()) {
    return -1;
  }
  const c10::Storage overwritten(storage.identity.lock());
  if (!overwritten || overwritten.nbytes() != bytes.nbytes()) return -1;
  return AreEqualNow(overwritten, bytes) ? index : -1;
}

bool AddTwins(Tape* tape, int op, int copy) {
  const int original = tape->storages[copy].copy_of;
  auto writers = tape->storages[original].writers;
  writers.erase(std::remove(writers.begin(), writers.end(), op), writers.end());
  if (writers.size() > kMostTwins) return false;
  if (MayHaveChangedSince(tape->storages[original], writers.front())) {
    return false;
  }
  for (int writer : writers) {
    if (!ReadsWhatItRead(*tape, writer, original)) return false;
  }
  tape->storages[copy].writers.clear();
  for (int writer : writers) {
    TapeOp twin = TwinOf(tape->ops[writer], original, copy, tape);
    tape->storages[copy].writers.push_back(tape->ops.size());
    tape->ops.push_back(std::move(twin));
  }
  return true;
}

}  // namespace ebbtide
