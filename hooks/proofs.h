// Finds out whether bytes are equal, where they lie.
//
// On a device whose work is queued, comparisons are queued, too: piece by
// piece, with memory for one piece and one flag for each. The flags of all
// comparisons are read at once, later, so that nothing but them is copied to
// the host and no thread waits in between. Elsewhere the host compares at once.
//
// Under the runtime's lock.
#ifndef EBBTIDE_HOOKS_PROOFS_H_
#define EBBTIDE_HOOKS_PROOFS_H_

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace ebbtide {

// Bytes of a storage.
struct ByteRange {
  c10::Storage storage;
  size_t begin = 0;
  size_t size = 0;
};
// Two ranges of the same size, on the same device if they are on a device.
using BytePair = std::pair<ByteRange, ByteRange>;

class Proofs {
 public:
  // Called with the answer; nullopt: there will be none.
  using Then = std::function<void(std::optional<bool> are_equal)>;

  // Compares all pairs. False: `then` has been called. True: Settle will call
  // it. Throws as an op does, and `then` is never called then.
  bool Compare(const std::vector<BytePair>& pairs, Then then);
  // Calls what is still to be called, for which it waits; nothing where it is
  // called from within Compare, whose memory may be short. Never throws.
  void Settle();
  bool IsSettled() const { return open_.empty(); }

 private:
  // The flags of one device.
  struct Flags {
    int device = 0;
    c10::Storage raised;  // a byte for each piece: it differs
    int used = 0;
    std::vector<c10::Stream> streams;  // that raise them
  };
  struct Open {
    size_t flags = 0;  // index into flags_; pieces [begin, end) of it
    int begin = 0;
    int end = 0;
    Then then;
  };
  size_t FlagsOf(int device);
  static void Raise(const BytePair& pair, int64_t piece, Flags* flags);
  static void UseHere(Flags* flags);
  static std::vector<bool> Read(const Flags& flags);

  std::vector<Flags> flags_;
  std::vector<Open> open_;
  bool is_comparing_ = false;
};

// Compares two storages of the same size at once, for which it may wait.
bool AreEqualNow(const c10::Storage& a, const c10::Storage& b);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PROOFS_H_
