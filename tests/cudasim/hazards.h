// Finds work that touches a piece of memory which an allocator has given to
// another user.
//
// The allocator's promises are known (Taken, Freed), and so are the accesses of
// all queued work and the order between them. A piece that was freed must not
// be accessed before it is taken again; and whatever its next holder does must
// be ordered behind all that its last holder did. Both are judged by order, not
// by when work ran, so every schedule finds the same hazards.
#ifndef EBBTIDE_TESTS_CUDASIM_HAZARDS_H_
#define EBBTIDE_TESTS_CUDASIM_HAZARDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cudasim/order.h"
#include "tests/cudasim/queue.h"

namespace cudasim {

// Not thread-safe: the simulator's lock is held around every call. Memory that
// no allocator has spoken of is not watched.
class Hazards {
 public:
  // `stream` is the one in whose order the piece will be used again; null where
  // that is not known.
  void Taken(const void* begin, size_t size, Stream* stream);
  // The piece's stream would order what it gets next behind `behind`; null
  // where it is not known. Returns the message of a new hazard, or "".
  std::string Freed(const void* begin, const Order* behind);
  // The stream that Taken was given.
  Stream* StreamOf(const void* begin) const;
  // The device gave the memory back; it is not watched until it is taken.
  void Gone(const void* begin, size_t size);
  // As Gone, of pages that are unmapped. `host`: the work that the host has
  // waited for; other work that uses them is a hazard. Returns its message, or
  // "".
  std::string Unmapped(const void* begin, size_t size, const Order& host);
  // Notes what the op accesses, and returns the message of a new hazard, or "".
  std::string Check(const Op& op);
  // Forgets accesses that the host has waited for: whatever comes is behind.
  void Forget(const Order& host);

  const std::vector<std::string>& messages() const { return messages_; }
  void Clear();

 private:
  struct Use {
    OpId op;
    const char* name;
    bool write;
    uintptr_t begin;
    uintptr_t end;
    uint64_t generation;  // generation of the block that it was a use of
  };
  struct Block {
    uintptr_t end;
    uint64_t generation;
    bool free;
    Stream* stream;
    std::vector<Use> uses;    // the last of each stream and range
    std::vector<Use> former;  // uses of pieces that lay here before
  };

  std::string Note(std::string message);
  static void AddUse(std::vector<Use>* uses, const Use& use);
  std::string CheckBlock(uintptr_t begin, Block* block, const Use& use,
                         const Op& op);
  void CarveOut(uintptr_t begin, uintptr_t end, std::vector<Use>* former);

  std::map<uintptr_t, Block> blocks_;  // by begin; disjoint
  uint64_t generations_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_HAZARDS_H_
