// `Digest` stands for the bytes of a storage at one time: equal bytes have
// equal digests, and other bytes have another one but for a chance of 2^-33.
//
// On a device whose work is queued, a digest is computed where the bytes lie,
// behind the work queued so far: no bytes are copied, and nothing waits until
// its value is read. It takes two launches for each piece of a storage, and
// memory for one piece (a 256th of the budget) as long as there are digests.
// The host reads the bytes on other devices, and where there is no memory for
// that.
//
// Under the runtime's lock, but for the destructor.
#ifndef EBBTIDE_HOOKS_DIGEST_H_
#define EBBTIDE_HOOKS_DIGEST_H_

#include <ATen/ATen.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "hooks/proofs.h"

namespace ebbtide {

class DeviceWord;

class Digest {
 public:
  explicit Digest(uint64_t value) : value_(value) {}
  explicit Digest(std::shared_ptr<const DeviceWord> word)
      : word_(std::move(word)) {}

  // Waits for the work that computes it. Throws as a copy to the host does.
  uint64_t Value() const;
  bool is_on_device() const { return word_ != nullptr; }
  // Its eight bytes on the device, as long as this digest is.
  ByteRange Place() const;

 private:
  uint64_t value_ = 0;
  std::shared_ptr<const DeviceWord> word_;
};

// Digests that are to be compared are of one kind: both of the host, or both of
// the device. Throws as an op does.
Digest HostDigest(const c10::Storage& bytes);
// Computed where the bytes lie; nullopt where there is no memory for that.
std::optional<Digest> DigestInPlace(const c10::Storage& bytes);
// On a device as long as there is room for it there.
Digest DigestOf(const c10::Storage& bytes);
// A digest to be compared with `other`.
Digest DigestLike(const Digest& other, const c10::Storage& bytes);

// Where a device computes: flat tensors of 64-bit integers on it.
struct DigestScratch {
  at::Tensor weights;   // pseudo-random odd numbers
  at::Tensor products;  // same size as the weights: one piece
  at::Tensor sums;      // by piece
};
// Fills in the weights; the products are overwritten.
void MakeWeights(const DigestScratch& scratch);
// Writes the digest of a storage's bytes, a flat tensor of all of them, to
// `sum`, one 64-bit integer.
void SumBytes(const at::Tensor& bytes, const DigestScratch& scratch,
              at::Tensor* sum);
// Writes to `sum` that of `words`, a flat tensor of 32-bit integers or of
// bytes: the sum modulo 2^64, over each piece, of the words times the weights
// of their places; for several pieces, that of their sums. Weights are odd, so
// a single word that differs always shows.
void SumWords(const at::Tensor& words, const DigestScratch& scratch,
              at::Tensor* sum);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_DIGEST_H_
