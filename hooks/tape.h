// The tape of one forward/backward pair: the ops that ran, the storages they
// read and wrote, and what is held of each storage now.
//
// Storages, not tensors, are the unit. A tensor argument is a storage and a
// geometry, so views need no recomputation, a storage written in place has one
// list of writers, and two tensors that share bytes without sharing a version
// counter (`_unsafe_view`) cannot be mistaken for independent ones. Identity is
// a weak reference to the StorageImpl: its address cannot be reused while the
// tape lives, and tensors themselves are never referenced, so
// torch.utils.swap_tensors keeps working.
//
// Not thread-safe: everything here is used under the runtime's lock.
#ifndef EBBTIDE_HOOKS_TAPE_H_
#define EBBTIDE_HOOKS_TAPE_H_

#include <ATen/ATen.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "hooks/digest.h"
#include "hooks/gaps.h"
#include "hooks/host_tier.h"
#include "hooks/kernel_settings.h"
#include "hooks/op_info.h"
#include "planner/time_spread.h"

namespace ebbtide {

// Externals below this size are held, or copied, for the recipes that read
// them.
inline constexpr size_t kSmallStorage = 64 << 10;

// Storages below this size are never evicted: EBBTIDE_MIN_BYTES.
size_t LeastManaged();
// Before the first tape.
void SetLeastManaged(size_t bytes);

// How a tensor lies in its storage.
struct Geometry {
  c10::SmallVector<int64_t, 5> sizes;
  c10::SmallVector<int64_t, 5> strides;
  int64_t offset = 0;
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
};
void SetGeometry(const at::Tensor& tensor, Geometry* geometry);
// A detached tensor of that geometry over `storage`.
at::Tensor MakeTensor(const c10::Storage& storage, const Geometry& geometry);
// Elements [offset, offset + count) of the storage, seen as ones of that type.
at::Tensor FlatTensor(const c10::Storage& storage, at::ScalarType type,
                      int64_t offset, int64_t count);

// A dense strided tensor of the managed device whose bytes and geometry are the
// whole truth about it: not a subclass, not traced, not functional. That it is
// lazily conjugated or negated is among the keys of its geometry.
bool IsPlainTensor(const at::Tensor& tensor);

// A tensor argument: index of its storage, or -1 for an undefined tensor.
struct TensorArgument {
  int storage = -1;
  Geometry geometry;
};

struct Argument {
  enum class Kind : uint8_t { kLiteral, kTensor, kTensors, kOptionalTensors };
  Kind kind = Kind::kLiteral;
  bool written = false;
  c10::IValue literal;
  // Hardly any argument is a list: recording allocates nothing for the others.
  c10::SmallVector<TensorArgument, 1> tensors;
};

// The time that a part of a step takes.
struct TapeTime {
  // False: it is an estimate, which counts as no sample.
  bool is_measured = false;
  double nanoseconds = 0;
  TimeSpread spread;  // spread over the signature's pairs, if it was requested

  void NoteTime(double measured) {
    is_measured = true;
    nanoseconds = measured;
  }
};

struct TapeOp : TapeTime {
  const OpInfo* info = nullptr;
  absl::Span<Argument> arguments;  // by Tape::AddArguments
  // Storage written by output i (flattened), -1 where it is a view or nothing.
  c10::SmallVector<int, 4> outputs;
  int device = 0;  // index of the one it ran on
  // Generator state before the op, of `generator` (undefined: the default one).
  at::Tensor random_state;
  at::Generator generator;
  // Op, geometries (offsets modulo 64 bytes), literals but numbers
  // (OpInfo::numbers), grad mode, threads, settings.
  uint64_t signature = 0;
  uint64_t hash = 0;  // hash of the tape up to and with this op
  int threads = 1;
  KernelSettings settings;
  bool grad_mode = false;
  bool parallel_region = false;
  // The op allocates the storage of its first argument itself when recomputed.
  bool fresh_self = false;
  bool by_autocast = false;  // called for another op, whose arguments it casts
  // Reads a tensor that is not plain: never recomputed.
  bool foreign = false;
  // Its byte comparison (hooks/verify.h) has been made; and it passed.
  bool tried = false;
  bool verified = false;
  // Bytes that it leaves unwritten, if known; nullptr: none.
  std::shared_ptr<const OutputGaps> gaps;
  // Version of its first argument before the op, if the op writes it; while it
  // runs.
  std::optional<c10::VariableVersion> version;
  uint32_t version_number = 0;
  // Peaks while it ran of what plans do not move (see planner/profile.h): all
  // of it, and what was beyond its arguments and outputs.
  Bytes other{};
  Bytes scratch{};
};

struct TapeStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> identity{
      c10::intrusive_ptr<c10::StorageImpl>()};
  size_t bytes = 0;
  int device = 0;  // index of the one it lies on
  // Ops that wrote it, in order; the first one made it. Empty for externals
  // (parameters, inputs, whatever no observed op produced).
  c10::SmallVector<int, 2> writers;
  bool external = false;
  bool parameter = false;  // an external leaf that requires grad
  // `data` of an external is held for the life of the tape: leaves, and small
  // tensors that the script may release.
  bool captured = false;
  // Written by something that no recipe can repeat.
  bool opaque = false;
  // The storage whose earlier content this one has (hooks/twin.h), or -1.
  int copy_of = -1;
  // The maker that autograd gives a variable after an in-place op, for error
  // messages. A name, not the node: the node would hold the tensors that it has
  // saved.
  struct Writer {
    const void* variable = nullptr;  // written itself, or below a written view
    std::string name;                // as autograd calls it
  };
  std::vector<Writer> written;  // the last of each variable over these bytes

  // See hooks/outside.h: recipes rely on it even where it is exported; what
  // they read instead of it; the digest of what they rely on.
  bool trusted = false;
  c10::Storage copy;
  std::optional<Digest> witness;
  // Its block when recipes began to rely on it, guarded (hooks/guarded.h) while
  // they do.
  const void* guarded = nullptr;
  // The block of an external that may come and go (WatchBlock).
  const void* watched = nullptr;
  // Written by an op that is not on this tape, or freed and made anew: recipes
  // neither read nor make it.
  bool rewritten = false;
  bool doomed = false;  // about to be written: nothing new may rely on it
  // The last op before a custom function saved it, or -1. Such a function may
  // have had it written by kernels that are no ops.
  int handed_over = -1;

  // The bytes that ebbtide holds of it now: on the device, in the offload file,
  // or neither (then a recipe recomputes it).
  c10::Storage data;
  std::shared_ptr<SpillSlot> spill;
  // Streams whose queued work may touch `data` (hooks/stream_order.h).
  c10::SmallVector<c10::Stream, 1> streams;
  // A plan brings it back, as long as it is followed.
  bool returns = false;

  // Digest of the bytes when they were dropped, if they are to be verified.
  // Unlike the witness it leaves out what the recipe leaves unwritten.
  std::optional<size_t> digest;

  int hooks = 0;       // saved tensors that will ask for it
  int dependents = 0;  // owed storages whose recipe reads it
  // It has a user and its bytes are nowhere (hooks/recovery.h).
  bool owed = false;
  int pins = 0;        // read at this moment: not to be evicted
  int awaited = 0;     // reads to come by running recomputations: not to be
                       // dropped
  bool lent = false;   // `data` and `spill` belong to a running recomputation,
                       // and end with it
  int last_pack = -1;  // position of its last save in the pair
  // Where it was packed, on the tape's clock; the mirror of when it is needed.
  double packed_at = 0;
  // The mirror of the first time it is needed: by a saved tensor, or to
  // recompute a dropped storage.
  double needed_at = 0;
  // Its first block in the trace, once it is saved, and SaveMark::parameter
  // then.
  int64_t logged = -1;
  const void* behind = nullptr;
  absl::string_view maker;  // where no writer is known, but a plan
  // Op (or stage, plus kStageInstant) at whose end only autograd held it; -1
  // while the script holds it.
  int released = -1;
  int tagged = -1;  // op inside which it was first saved
  // For externals read by recipes: what their version must still be.
  std::optional<c10::VariableVersion> version;
  uint32_t version_number = 0;
};

// One save by autograd, at its position in the pair.
struct SaveMark {
  int storage = -1;       // -1: not ours to hold
  int earlier = -1;       // position of the last save of the same storage
  int op = -1;            // the last op begun
  uint64_t sequence = 0;  // autograd's, since the pair's first save
  int64_t elements = 0;
  at::ScalarType type = at::ScalarType::Undefined;
  absl::string_view maker;  // in plans: the op that made the storage
  // Storage of the last parameter that a node before has saved, for the trace.
  const void* parameter = nullptr;
};

// For each save, the last parameter saved before: the input of a node was made
// by the nodes before it.
class LastParameters {
 public:
  // The node with that sequence number saves something; `parameter`, if it is
  // one. The last that a node before has saved, or nullptr.
  const void* Before(uint64_t sequence, const void* parameter) {
    if (sequence != sequence_) earlier_ = last_;
    sequence_ = sequence;
    if (parameter != nullptr) last_ = parameter;
    return earlier_;
  }

 private:
  uint64_t sequence_ = 0;
  const void* last_ = nullptr;
  const void* earlier_ = nullptr;
};

// A saved tensor that no tape takes: its bytes, where they are known, the last
// op begun, and why.
struct UntapedSave {
  const void* storage = nullptr;  // identity, while it is saved
  Bytes bytes{};
  int op = -1;
  std::string reason;
};

// Instants of the backward pass, before the number of ops is known.
inline constexpr int kStageInstant = 1 << 28;

// A backward op that unpacked something.
struct TapeStage : TapeTime {
  const void* node = nullptr;  // identity while the backward runs
  std::string name;
  std::vector<int> needs;  // storages, in the order they were asked for
  Bytes before{};
  Bytes during{};
};

struct Tape {
  Tape() = default;
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  int device = 0;  // index of the one on which its pair began
  std::vector<TapeOp> ops;
  std::vector<std::vector<Argument>> argument_blocks;  // none ever moves
  std::vector<TapeStorage> storages;
  std::vector<TapeStage> stages;
  absl::flat_hash_map<c10::StorageImpl*, int> by_identity;
  std::vector<SaveMark> saves;  // by position
  // A superset of the saves whose storage is in the offload file.
  absl::btree_set<int> spilled_saves;
  std::vector<UntapedSave> untaped;
  LastParameters parameters;
  int hooks = 0;                   // saved tensors alive
  int owed = 0;                    // number of owed storages
  std::vector<int> due_witnesses;  // storages to be witnessed when the op ends
  uint64_t hash = 0;               // rolling hash of the signatures of its ops
  double clock = 0;                // sum of nanoseconds of its ops
  // The tape itself while an op is being recorded on it: another thread may end
  // its pair, and begin the next, before that op has run.
  std::shared_ptr<Tape> recording;
  // False: EBBTIDE_RECOMPUTE=0, no storage of it has a recipe.
  bool may_recompute = true;
  // Writes have gone unseen since: no recipe is relied upon any more.
  bool blind = false;
  // An input of recipes was written, and memory was too short to recompute the
  // dropped storages first.
  bool ran_short = false;
  bool follows_plan = false;
  // Progress of its plan, in the plan's instants: offloaded bytes stay until
  // the plan frees them. Without a plan nothing waits.
  static constexpr int kNoPlan = std::numeric_limits<int>::max();
  int planned_instant = kNoPlan;

  // Room for the arguments of an op, for as long as the tape lives.
  absl::Span<Argument> AddArguments(size_t count);
  // Takes the room that `last` needed.
  void Reserve(const Tape& last);
  // Index of the storage, or -1 where the tape has not seen it.
  int Find(const c10::Storage& storage) const;
  // As Find; an unseen storage becomes an external, and one that changes behind
  // PyTorch's back another one (hooks/outside.h).
  int FindOrAdd(const at::Tensor& tensor);
  // An op that may be recomputed reads it: small externals are kept for that.
  void HoldInput(int index, const c10::Storage& storage);
  // A new storage made by `op`.
  int AddProduced(const c10::Storage& storage, int op);
  // A new storage of unknown origin.
  int AddUnknown(const c10::Storage& storage);
};

// True if bytes of the storage are on the device or in the offload file.
inline bool IsAvailable(const TapeStorage& storage) {
  return storage.data || storage.spill;
}

// True if the held bytes are the program's own storage, which it may hold as
// well, and not a restored or recomputed copy.
inline bool HoldsOriginal(const TapeStorage& storage) {
  return storage.data && storage.data.unsafeGetStorageImpl() ==
                             storage.identity._unsafe_get_target();
}

// A kernel that is no op may have written `storage` after that op.
inline bool MayHaveChangedSince(const TapeStorage& storage, int op) {
  return op <= storage.handed_over;
}

// The content of `storage` that op `reader` read is the one it has now.
inline bool IsCurrentFor(const TapeStorage& storage, int reader) {
  if (storage.rewritten) return false;
  return storage.writers.empty() || storage.writers.back() <= reader;
}

// The bytes that the storage's recipe leaves unwritten; nullptr: none.
const Gaps* GapsOf(const Tape& tape, int storage);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_TAPE_H_
