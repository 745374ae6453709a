#include "hooks/outside.h"

#include <ATen/MapAllocator.h>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "hooks/device.h"
#include "hooks/guarded.h"
#include "hooks/stream_order.h"
#include "hooks/weights.h"

namespace ebbtide {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage WeakOf(const c10::Storage& bytes) {
  return WeakStorage(
      c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(
          bytes.unsafeGetStorageImpl()));
}

// What the exported storages held when they were last read for the first time
// in a pair.
struct Known {
  WeakStorage identity;
  size_t digest = 0;
};

bool IsUnchanged(const c10::Storage& bytes, size_t digest) {
  static auto& known = *new absl::flat_hash_map<c10::StorageImpl*, Known>;
  static size_t tidy_at = 64;
  if (known.size() > tidy_at) {
    absl::erase_if(
        known, [](const auto& one) { return one.second.identity.expired(); });
    tidy_at = 2 * known.size() + 64;
  }
  c10::StorageImpl* impl = bytes.unsafeGetStorageImpl();
  const auto entry = known.find(impl);
  if (entry != known.end() && !entry->second.identity.expired() &&
      entry->second.digest == digest) {
    return true;
  }
  known.insert_or_assign(impl,
                         Known{.identity = WeakOf(bytes), .digest = digest});
  return false;
}

// Storages whose blocks come and go.
class StorageSet {
 public:
  void Add(const c10::Storage& bytes) {
    if (Has(bytes)) return;
    absl::erase_if(known_,
                   [](const auto& one) { return one.second.expired(); });
    known_.insert_or_assign(bytes.unsafeGetStorageImpl(), WeakOf(bytes));
  }
  bool Has(const c10::Storage& bytes) const {
    const auto entry = known_.find(bytes.unsafeGetStorageImpl());
    return entry != known_.end() && !entry->second.expired();
  }

 private:
  absl::flat_hash_map<c10::StorageImpl*, WeakStorage> known_;
};

StorageSet& ComeAndGo() {
  static auto& storages = *new StorageSet;
  return storages;
}

// Exported storages that were written between two ops that read them. From then
// on each read counts as one of other bytes, so that what a step looks like
// does not depend on what is in them.
StorageSet& Changing() {
  static auto& storages = *new StorageSet;
  return storages;
}

bool IsMapping(const c10::Storage& bytes) {
  if (IsAway(bytes)) return false;
  return at::MapAllocator::fromDataPtr(bytes.data_ptr()) != nullptr;
}

// The bytes that a recipe would read, if they are there at once.
c10::Storage Present(const TapeStorage& storage) {
  if (storage.data) return storage.data;
  if (!storage.external || storage.spill) return {};
  return c10::Storage(storage.identity.lock());
}

}  // namespace

bool IsExported(const c10::Storage& bytes) { return !bytes.resizable(); }

size_t Digest(const c10::Storage& bytes) {
  const c10::Storage here = Device::Get().OnHost(bytes);
  return absl::HashOf(
      absl::string_view(static_cast<const char*>(here.data()), here.nbytes()));
}

void NoteExternal(const c10::Storage& bytes, bool parameter,
                  TapeStorage* storage) {
  storage->trusted = parameter;
  if (!IsExported(bytes) || bytes.nbytes() == 0) return;
  storage->witness = Digest(bytes);
  if (!parameter && storage->bytes < kSmallStorage) {
    storage->copy = Device::Get().CopyOf(bytes);
    return;
  }
  storage->trusted =
      parameter || IsMapping(bytes) ||
      (IsUnchanged(bytes, *storage->witness) && !Changing().Has(bytes));
}

bool IsAnotherInput(const c10::Storage& bytes, const TapeStorage& storage) {
  if (!storage.witness || storage.trusted || !IsExported(bytes)) return false;
  if (!Changing().Has(bytes)) {
    if (Digest(bytes) == *storage.witness) return false;
    Changing().Add(bytes);
  }
  return static_cast<bool>(storage.copy);
}

void WatchBlock(const c10::Storage& bytes, TapeStorage* storage) {
  if (ComeAndGo().Has(bytes)) storage->rewritten = true;
  if (storage->watched != nullptr || storage->rewritten || IsAway(bytes)) {
    return;
  }
  storage->watched = bytes.data();
  if (storage->watched == nullptr) return;
  Device::Get().SeeFree(bytes);
  Guard(storage->watched);
}

void NoteComesAndGoes(const c10::Storage& bytes) { ComeAndGo().Add(bytes); }

bool MayRelyOn(const TapeStorage& storage) {
  if (storage.trusted || storage.copy) return true;
  const c10::Storage bytes = Present(storage);
  return !bytes || !IsExported(bytes);
}

bool TakesWitness(const TapeStorage& storage) {
  if (storage.witness || storage.copy || storage.trusted) return false;
  const c10::Storage bytes = Present(storage);
  // Parameters are written by ops, whose versions count. Of what an op has made
  // nobody can take a pointer any more once we alone hold it.
  const bool ours_alone = !storage.external && bytes.use_count() == 2;
  return bytes && !ours_alone;
}

void TakeWitness(TapeStorage* storage) {
  if (!TakesWitness(*storage)) return;
  UseHere(storage);
  storage->witness = Digest(Present(*storage));
}

bool IsAsWitnessed(TapeStorage* storage) {
  if (!storage->witness || storage->copy) return true;
  const c10::Storage bytes = Present(*storage);
  if (!bytes) return true;
  UseHere(storage);
  return Digest(bytes) == *storage->witness;
}

}  // namespace ebbtide
