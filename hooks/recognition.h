// Recognises an unfolding tape as one of the known tapes by the rolling hashes
// after its ops: equal hashes after op i mean that all ops up to i are equal.
//
// Steps of other lengths differ in one of the first ops; tasks that share a
// model may differ late. The most likely tape that fits is named at once, and
// the next one that fits where it turns out to be another. Not thread-safe.
#ifndef EBBTIDE_HOOKS_RECOGNITION_H_
#define EBBTIDE_HOOKS_RECOGNITION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ebbtide {

struct KnownTape {
  uint64_t signature = 0;
  std::shared_ptr<const std::vector<uint64_t>> hashes;  // after op i
};

class Recognition {
 public:
  Recognition() = default;
  // The most likely ones first.
  explicit Recognition(std::vector<KnownTape> known)
      : known_(std::move(known)) {}

  // The signature of the first known tape that is the same up to op `op`, after
  // which the hash is `hash`. The others are forgotten.
  std::optional<uint64_t> After(int op, uint64_t hash);
  // The signature of the first known tape that has `ops` ops and no more.
  std::optional<uint64_t> Whole(int ops, uint64_t hash);
  // It is not that one.
  void Exclude(uint64_t signature);

 private:
  std::optional<uint64_t> First() const;

  std::vector<KnownTape> known_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RECOGNITION_H_
