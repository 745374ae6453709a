#include "hooks/outside.h"

#include <ATen/MapAllocator.h>
#include <dlfcn.h>

#include <exception>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "hooks/device.h"
#include "hooks/digest.h"
#include "hooks/guarded.h"
#include "hooks/insist.h"
#include "hooks/recorder.h"
#include "hooks/stream_order.h"
#include "hooks/weights.h"

namespace ebbtide {
namespace {

// Scopes that live on this thread, by kind.
[[gnu::tls_model(
    "initial-exec")]] thread_local int scopes[WitnessScope::kKinds] = {};
// Witnesses that are due, those of dead tapes included.
int64_t due = 0;

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage WeakOf(const c10::Storage& bytes) {
  return WeakStorage(
      c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(
          bytes.unsafeGetStorageImpl()));
}

// Content of an exported storage when it was first read in a step.
struct Known {
  WeakStorage identity;
  uint64_t digest = 0;
};

enum class Seen { kNew, kUnchanged, kChanged };

// Compares the storage with what it held in the last pair that has read it.
Seen CompareWithLastPair(const c10::Storage& bytes, uint64_t digest) {
  static auto& known = *new absl::flat_hash_map<c10::StorageImpl*, Known>;
  static size_t tidy_at = 64;
  if (known.size() > tidy_at) {
    absl::erase_if(
        known, [](const auto& one) { return one.second.identity.expired(); });
    tidy_at = 2 * known.size() + 64;
  }
  c10::StorageImpl* impl = bytes.unsafeGetStorageImpl();
  const auto entry = known.find(impl);
  Seen seen = Seen::kNew;
  if (entry != known.end() && !entry->second.identity.expired()) {
    if (entry->second.digest == digest) return Seen::kUnchanged;
    seen = Seen::kChanged;
  }
  known.insert_or_assign(impl,
                         Known{.identity = WeakOf(bytes), .digest = digest});
  return seen;
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

}  // namespace

void ThrowMisled(const OpInfo& op) {
  TORCH_CHECK(false, "ebbtide: a tensor that ", op.name,
              " has read was written behind PyTorch's back (a NumPy array over "
              "it, a raw pointer, another process) between forward and "
              "backward, and what was made of it has been dropped; give "
              "PyTorch a copy of such an array");
}

namespace {

// Comparisons with witnesses that lie on a device.
class OpenChecks {
 public:
  void Add(const OpInfo& op, const Digest& witness, const c10::Storage& bytes) {
    if (open_.size() >= kMost) Settle();
    open_.push_back({&op, witness, DigestLike(witness, bytes)});
  }
  // Waits. Returns an op that has read what was written, or nullptr.
  const OpInfo* Finish() {
    Settle();
    return std::exchange(misled_, nullptr);
  }

 private:
  static constexpr size_t kMost = 64;
  struct Check {
    const OpInfo* op = nullptr;
    Digest before;
    Digest now;
  };

  // Tries twice, also where a call says that memory is short: none is needed.
  static bool IsSame(const Check& check) {
    try {
      return check.before.Value() == check.now.Value();
    } catch (const std::exception&) {
      return check.before.Value() == check.now.Value();
    }
  }

  void Settle() {
    for (const Check& check : std::exchange(open_, {})) {
      if (!IsSame(check)) misled_ = check.op;
    }
  }

  std::vector<Check> open_;
  const OpInfo* misled_ = nullptr;
};

OpenChecks& Checks() {
  static auto& checks = *new OpenChecks;
  return checks;
}

bool IsMapping(const c10::Storage& bytes) {
  if (IsAway(bytes)) return false;
  return at::MapAllocator::fromDataPtr(bytes.data_ptr()) != nullptr;
}

bool IsOfSharingLibrary(c10::DeleterFnPtr deleter) {
  static auto& known = *new absl::flat_hash_map<c10::DeleterFnPtr, bool>;
  const auto [entry, is_new] = known.try_emplace(deleter, false);
  Dl_info library;
  if (is_new && dladdr(reinterpret_cast<void*>(deleter), &library) != 0) {
    entry->second = absl::StrContains(library.dli_fname, "libshm");
  }
  return entry->second;
}

// Memory that other processes may have mapped, too: Tensor.share_memory_()
// makes it, by a MapAllocator, or by a library of PyTorch's where the sharing
// strategy is "file_system". A file that is mapped for this process alone is
// not.
bool IsShared(const c10::Storage& bytes) {
  const at::DataPtr& data =
      bytes.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (auto* map = at::MapAllocator::fromDataPtr(data)) {
    return (map->flags() & (at::ALLOCATOR_MAPPED_SHARED |
                            at::ALLOCATOR_MAPPED_SHAREDMEM)) != 0;
  }
  return IsOfSharingLibrary(data.get_deleter());
}

// The bytes that a recipe would read, if they are there at once.
c10::Storage Present(const TapeStorage& storage) {
  if (storage.data) return storage.data;
  if (!storage.external || storage.spill) return {};
  return c10::Storage(storage.identity.lock());
}

}  // namespace

bool IsExported(const c10::Storage& bytes) {
  return !bytes.resizable() || IsShared(bytes);
}

void NoteExternal(const c10::Storage& bytes, bool parameter,
                  TapeStorage* storage) {
  storage->trusted = parameter;
  if (!IsExported(bytes) || bytes.nbytes() == 0) return;
  if (parameter && IsShared(bytes)) {
    storage->trusted = false;
    return;
  }
  storage->witness = HostDigest(bytes);
  if (!parameter && storage->bytes < kSmallStorage) {
    storage->copy = Device::Get().CopyOf(bytes);
    return;
  }
  if (parameter) return;
  const Seen seen = CompareWithLastPair(bytes, storage->witness->Value());
  storage->trusted =
      !Changing().Has(bytes) &&
      (seen == Seen::kUnchanged || (seen == Seen::kNew && IsMapping(bytes)));
}

bool IsAnotherInput(const c10::Storage& bytes, const TapeStorage& storage) {
  if (!storage.witness || storage.trusted || !IsExported(bytes)) return false;
  if (!Changing().Has(bytes)) {
    if (HostDigest(bytes).Value() == storage.witness->Value()) return false;
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
  // Ops write parameters, and their version counters show it. No pointer can be
  // taken any more to the output of an op whose storage only ebbtide holds.
  const bool ours_alone = !storage.external && bytes.use_count() == 2;
  return bytes && !ours_alone;
}

WitnessScope::WitnessScope(Kind kind) : kind_(kind) { ++scopes[kind_]; }
WitnessScope::~WitnessScope() { --scopes[kind_]; }

void TakeWitness(Tape* tape, int index) {
  TapeStorage& storage = tape->storages[index];
  if (!TakesWitness(storage)) return;
  const bool may_run_ops = scopes[WitnessScope::kAllocation] == 0;
  if (!may_run_ops && Device::Get().is_async() &&
      (scopes[WitnessScope::kReplay] > 0 || IsRecordingOp())) {
    ++due;
    tape->due_witnesses.push_back(index);
    return;
  }
  UseHere(&storage);
  storage.witness = Insist([&] {
    const c10::Storage bytes = Present(storage);
    return may_run_ops ? DigestOf(bytes) : HostDigest(bytes);
  });
}

bool AreWitnessesDue() { return due > 0; }

void TakeDueWitnesses(Tape* tape) {
  for (const int index : std::exchange(tape->due_witnesses, {})) {
    --due;
    if (tape->storages[index].dependents > 0) TakeWitness(tape, index);
  }
}

void CheckWitness(const OpInfo& op, TapeStorage* storage) {
  if (!storage->witness || storage->copy) return;
  const c10::Storage bytes = Present(*storage);
  if (!bytes) return;
  UseHere(storage);
  if (storage->witness->is_on_device()) {
    Checks().Add(op, *storage->witness, bytes);
  } else if (HostDigest(bytes).Value() != storage->witness->Value()) {
    ThrowMisled(op);
  }
}

const OpInfo* FindMisled() { return Checks().Finish(); }

}  // namespace ebbtide
