// Frees by the program of blocks that recipes read: finds the storages of a
// block and saves their content.
#include <algorithm>
#include <functional>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "hooks/outside.h"
#include "hooks/residency.h"
#include "hooks/weights.h"

namespace ebbtide {
namespace {

// True if the program has freed the block of a storage that recipes read.
// Blocks that ebbtide has dropped are freed as well.
bool HasLost(const TapeStorage& storage, const void* block) {
  return storage.guarded == block && HoldsOriginal(storage) &&
         storage.data.data() != block;
}

// True if the program has given the storage another block and its former
// content is nowhere else. A dead storage may have been released by ebbtide.
bool HasGone(const TapeStorage& storage, const void* block) {
  if (storage.watched != block || storage.rewritten || storage.spill ||
      (storage.data && !HoldsOriginal(storage))) {
    return false;
  }
  const c10::Storage now(storage.identity.lock());
  return now && !IsAway(now) && now.data() != block;  // weights that we moved
}

}  // namespace

void Residency::VisitBlock(
    const void* address,
    const std::function<void(const Tape& tape, int storage)>& visit) const {
  // Without the check of storages that are to raise when they are read.
  const auto is_at = [address](const c10::StorageImpl* bytes) {
    return bytes != nullptr && const_cast<c10::StorageImpl*>(bytes)
                                       ->_mutable_data_ptr_no_checks()
                                       .get() == address;
  };
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr) continue;
    for (int i = 0; i < static_cast<int>(tape->storages.size()); ++i) {
      const TapeStorage& storage = tape->storages[i];
      const auto original = storage.identity.lock();
      if (is_at(storage.data.unsafeGetStorageImpl()) || is_at(original.get())) {
        visit(*tape, i);
      }
    }
  }
}

bool Residency::IsBusyWith(const c10::Storage& storage) {
  // A restored storage is not the storage by which the tape identifies it.
  const auto is_ours = [&storage](const TapeStorage& known) {
    return known.data.unsafeGetStorageImpl() ==
               storage.unsafeGetStorageImpl() &&
           (known.pins > 0 || known.spill != nullptr || known.lent ||
            (!known.captured && known.hooks + known.dependents > 0));
  };
  return std::any_of(tapes_.begin(), tapes_.end(), [&](const auto& weak) {
    const auto tape = weak.lock();
    return tape != nullptr &&
           std::any_of(tape->storages.begin(), tape->storages.end(), is_ours);
  });
}

void Residency::BeforeFree(void* block, bool is_backward) {
  for (const auto& weak : tapes_) {
    const auto tape = weak.lock();
    if (tape == nullptr) continue;
    for (int i = 0; i < static_cast<int>(tape->storages.size()); ++i) {
      if (!HasLost(tape->storages[i], block)) continue;
      TapeStorage& lost = tape->storages[i];
      lost.copy = Device::Get().Borrow(block, lost.bytes, lost.device);
      const auto forget_copy = absl::MakeCleanup([&tape, i] {
        tape->storages[i].copy = c10::Storage();
        tape->storages[i].rewritten = true;
      });
      BeforeWrite(tape.get(), i);
    }
    for (TapeStorage& storage : tape->storages) {
      if (!HasGone(storage, block)) continue;
      storage.rewritten = true;
      if (!is_backward) {
        NoteComesAndGoes(c10::Storage(storage.identity.lock()));
      }
    }
  }
}

}  // namespace ebbtide
