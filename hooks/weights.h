// Weight offload (EBBTIDE_WEIGHTS=1): parameters, gradients and optimizer state
// leave the device where memory is short, and are back before an op reads them.
//
// A storage is offloaded when its bytes are in the tier: it has no memory, and
// access to its pointer raises PyTorch's exception, never other bytes. All
// tensors over it share that, so views and ties need no care. An observer of
// all ops (hooks/weights_observer.h) restores the storages that an op reads and
// pins them until the op has ended.
//
// Managed storages outlive a step: leaves that require grad, and those outside
// any graph that have as many bytes as one of them (gradients, moments,
// averages). Storages whose address others may have are left alone: those that
// were exported (not resizable), that our allocator did not make, that are
// being copied for saved tensors, or that Python was given as such (Expose);
// and, on a device with streams, those that two streams use or a graph
// captures, because the program orders its streams by where the bytes were.
//
// Everything under the runtime's lock.
#ifndef EBBTIDE_HOOKS_WEIGHTS_H_
#define EBBTIDE_HOOKS_WEIGHTS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hooks/device.h"
#include "hooks/host_tier.h"
#include "planner/units.h"

namespace ebbtide {

// True if the storage's bytes are in the tier.
bool IsAway(const c10::Storage& storage);

struct WeightCounts {
  int64_t bytes_out = 0;
  int64_t bytes_back = 0;
};

// One managed storage.
struct Weight {
  c10::weak_intrusive_ptr<c10::StorageImpl> identity;
  std::shared_ptr<SpillSlot> slot;  // nullptr: it is here
  int pins = 0;                     // ops that run on it
  bool exposed = false;             // others have its address: it stays
  // On a device with streams: the stream that uses it, from its first use on.
  std::optional<c10::Stream> stream;
  bool was_away = false;  // its memory is of that stream
  // Numbers of its uses within this round (from one begin of a forward pass to
  // the next) and within the last.
  std::vector<int64_t> uses;
  std::vector<int64_t> last_uses;
};

class Weights {
 public:
  struct Seams {
    HostTier* tier = nullptr;  // outlives this, or Stop comes first
    // True if something else copies or reads the bytes at this moment.
    std::function<bool(const c10::Storage&)> is_busy;
    std::function<void(const std::string&)> say;
  };

  void Start(Seams seams);
  bool is_on() const { return is_on_; }
  // Nothing is offloaded any more; offloaded storages are restored when they
  // are used. Prints why.
  void Stop(const std::string& why);
  // Stops without a message: the runtime has turned off, or this is a child of
  // fork, which has no copy threads.
  void Retire() { is_on_ = false; }
  // Brings everything back and forgets it, because the tier goes.
  void LeaveTier();

  // `tensor` is an input or output of an op of the program: takes it on if it
  // is to be managed.
  void Note(const at::Tensor& tensor);
  // An op is about to read it. nullptr: not managed. If its bytes cannot be
  // restored it stays offloaded, and the op raises.
  std::shared_ptr<Weight> Pin(const c10::Storage& storage);
  void Unpin(Weight* weight) { --weight->pins; }
  // `storage` was pinned.
  void Unpin(const c10::Storage& storage) { Unpin(Find(storage).get()); }

  // Python is about to have its address: it stays from now on.
  void Expose(const c10::Storage& storage);
  // True if it may be offloaded now or later.
  bool Manages(const c10::Storage& storage) const;

  // An op of the program holds weights of these sizes. On a device that may
  // refuse memory as much is reserved from now on, piece by piece: what an op
  // reads has to come back, and an observer cannot say that it does not.
  void Reserve(int device, const std::vector<size_t>& sizes);

  // An op is about to run: starts bringing back what the last round used next,
  // where there is room, or something here that it used later.
  void Prefetch();

  // Offloads weights until the request finds room. If none can be, cancels a
  // prefetch or releases reserved memory. False if nothing was freed.
  bool Relieve(const Pressure& pressure);

  const WeightCounts& counts() const { return counts_; }
  const std::string& stopped_because() const { return stopped_because_; }

 private:
  std::shared_ptr<Weight> Find(const c10::Storage& storage) const;
  std::shared_ptr<Weight> Add(const c10::Storage& storage);
  void NoteUse(Weight* weight, bool is_parameter);
  void UseHere(Weight* weight, const c10::Storage& storage);
  void BeginRound();
  bool MayGo(const Weight& weight, const c10::Storage& storage) const;
  // Distance to the next use; a weight without a known next use is furthest,
  // the one used longest ago first.
  int64_t Distance(const Weight& weight) const;
  std::shared_ptr<Weight> BestVictim(int device) const;
  // The offloaded weight used soonest, as far as that is known.
  std::shared_ptr<Weight> NextAway() const;
  bool MakeRoomFor(const Weight& next, const c10::Storage& storage);
  // Cancels a prefetch; false if there is none.
  bool CancelPrefetch();
  bool Evict(Weight* weight);
  bool GiveUpReserve();
  void Restore(Weight* weight, const c10::Storage& storage);

  bool is_on_ = false;
  Seams seams_;
  std::string stopped_because_;
  absl::flat_hash_map<const c10::StorageImpl*, std::shared_ptr<Weight>>
      weights_;
  absl::flat_hash_set<size_t> sizes_;  // sizes of parameters, in bytes
  int64_t now_ = 0;                    // uses in this round
  int64_t last_round_ = 0;             // uses in the last one
  bool round_may_begin_ = false;       // a parameter was used without grad mode
  std::weak_ptr<Weight> coming_;       // on its way back, or there, unasked
  WeightCounts counts_;
  // Sizes of the weights of the op that holds most, and as much memory where
  // there was room.
  std::vector<size_t> reserved_sizes_;
  std::vector<c10::Storage> reserve_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_WEIGHTS_H_
