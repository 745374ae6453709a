#include "hooks/digest.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "allocator/allocation_kind.h"
#include "hooks/device.h"
#include "hooks/replay.h"
#include "hooks/tape.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

constexpr int64_t kWord = sizeof(int64_t);
// Odd, so that nothing of the words is lost behind bytes that make no word.
constexpr int64_t kFactorOfWords = 0x9e3779b9;
// Digests that a device holds at a time. DigestOf leaves half of them to
// DigestLike.
constexpr int kMostWords = 512;
// The weights and the products of a piece take no more than this part of the
// budget, but for the least piece: the larger it is, the fewer launches.
constexpr int64_t kScratchPart = 256;
constexpr int64_t kMostOfPiece = 1 << 20;

struct Sizes {
  int64_t piece = 0;   // 32-bit words
  int64_t pieces = 0;  // pieces of the largest storage; at most the words of a
                       // piece
};

Sizes SizesFor(Bytes budget) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  const int64_t words =
      std::min(Count(budget), kLargest) / static_cast<int64_t>(sizeof(int32_t));
  Sizes sizes = {.piece = 1024};
  while (sizes.piece < kMostOfPiece &&
         (sizes.piece * sizes.piece < words ||
          4 * sizes.piece * kWord <= Count(budget) / kScratchPart)) {
    sizes.piece *= 2;
  }
  sizes.pieces = words / sizes.piece + 1;
  return sizes;
}

}  // namespace

// `DigestMemory` is the memory of one device for its digests. It is there as
// long as one of them is.
class DigestMemory {
 public:
  // Throws as an allocation does.
  explicit DigestMemory(int device)
      : device_(device), is_used_(kMostWords, false) {
    const Sizes sizes = SizesFor(Device::Get().ledger(device).budget());
    // Also where a recomputation asks for it: it stays, and plans have to leave
    // room for what they do not move.
    const AllocationKind kind(Kind::kOther);
    storage_ = Device::Get().Allocate(
        kWord * (kMostWords + sizes.pieces + 2 * sizes.piece), device);
    int64_t end = 0;
    const auto take = [this, &end](int64_t count) {
      const int64_t begin = std::exchange(end, end + count);
      return FlatTensor(storage_, at::kLong, begin, count);
    };
    words_ = take(kMostWords);
    scratch_.sums = take(sizes.pieces);
    scratch_.weights = take(sizes.piece);
    scratch_.products = take(sizes.piece);
    UseHere();
    MakeWeights(scratch_);
  }

  // Others take the memory behind the work that uses it.
  ~DigestMemory() {
    try {
      for (const c10::Stream& stream : streams_) {
        Device::Get().KeepFor(storage_, stream);
      }
    } catch (const std::exception&) {
      // A device that fails here has no work left that counts.
    }
  }
  DigestMemory(const DigestMemory&) = delete;
  DigestMemory& operator=(const DigestMemory&) = delete;

  // -1 where as many as `most` are used.
  int Take(int most) {
    const std::lock_guard lock(mutex_);
    if (used_ >= most) return -1;
    const auto free = std::find(is_used_.begin(), is_used_.end(), false);
    *free = true;
    ++used_;
    return static_cast<int>(free - is_used_.begin());
  }
  void Give(int word) {
    const std::lock_guard lock(mutex_);
    is_used_[word] = false;
    --used_;
  }

  ByteRange Place(int word) const {
    return {storage_, static_cast<size_t>(word) * kWord, kWord};
  }

  void Compute(const c10::Storage& bytes, int word) {
    UseHere();
    at::Tensor sum = words_.select(0, word);
    SumBytes(FlatTensor(bytes, at::kByte, 0, bytes.nbytes()), scratch_, &sum);
  }

  uint64_t Read(int word) {
    UseHere();
    const c10::Storage here = Device::Get().OnHost(Device::Get().Borrow(
        words_.select(0, word).data_ptr(), kWord, device_));
    uint64_t value = 0;
    std::memcpy(&value, here.data(), sizeof(value));
    return value;
  }

 private:
  // One stream uses the scratch behind what another has queued.
  void UseHere() {
    const c10::Stream here = Device::Get().CurrentStream(device_);
    if (!streams_.empty() && streams_.back() != here) {
      Device::Get().Order(streams_.back(), here);
    }
    const auto known = std::remove(streams_.begin(), streams_.end(), here);
    streams_.erase(known, streams_.end());
    streams_.push_back(here);
  }

  const int device_;
  c10::Storage storage_;
  at::Tensor words_;
  DigestScratch scratch_;
  std::vector<c10::Stream> streams_;  // that use it, the last one last
  std::mutex mutex_;
  std::vector<bool> is_used_;
  int used_ = 0;
};

// `DeviceWord` is a digest on a device.
class DeviceWord {
 public:
  DeviceWord(std::shared_ptr<DigestMemory> memory, int index)
      : memory_(std::move(memory)), index_(index) {}
  ~DeviceWord() { memory_->Give(index_); }
  DeviceWord(const DeviceWord&) = delete;
  DeviceWord& operator=(const DeviceWord&) = delete;

  uint64_t Value() const { return memory_->Read(index_); }
  ByteRange Place() const { return memory_->Place(index_); }

 private:
  const std::shared_ptr<DigestMemory> memory_;
  const int index_;
};

namespace {

// Throws as an allocation does.
std::shared_ptr<DigestMemory> MemoryOf(int device) {
  static auto& all = *new std::map<int, std::weak_ptr<DigestMemory>>;
  auto memory = all[device].lock();
  if (memory != nullptr) return memory;
  memory = std::make_shared<DigestMemory>(device);
  all[device] = memory;
  return memory;
}

// nullopt where the device has no room for it.
std::optional<Digest> DeviceDigest(const c10::Storage& bytes, int most) {
  const int device = Device::IndexOf(bytes);
  const ReplayScope scope;
  const std::shared_ptr<DigestMemory> memory = MemoryOf(device);
  const int index = memory->Take(most);
  if (index < 0) return std::nullopt;
  Digest digest(std::make_shared<const DeviceWord>(memory, index));
  memory->Compute(bytes, index);
  return digest;
}

}  // namespace

uint64_t Digest::Value() const {
  return word_ == nullptr ? value_ : word_->Value();
}

ByteRange Digest::Place() const { return word_->Place(); }

Digest HostDigest(const c10::Storage& bytes) {
  const c10::Storage here = Device::Get().OnHost(bytes);
  return Digest(absl::HashOf(
      absl::string_view(static_cast<const char*>(here.data()), here.nbytes())));
}

std::optional<Digest> DigestInPlace(const c10::Storage& bytes) {
  if (!Device::Get().is_async() || bytes.nbytes() == 0) {
    return HostDigest(bytes);
  }
  try {
    return DeviceDigest(bytes, kMostWords / 2);
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;
  }
}

Digest DigestOf(const c10::Storage& bytes) {
  if (auto digest = DigestInPlace(bytes)) return *digest;
  return HostDigest(bytes);
}

Digest DigestLike(const Digest& other, const c10::Storage& bytes) {
  if (!other.is_on_device()) return HostDigest(bytes);
  auto digest = DeviceDigest(bytes, kMostWords);
  EBBTIDE_CHECK(digest.has_value());
  return *digest;
}

void MakeWeights(const DigestScratch& scratch) {
  // The steps of splitmix64 (Steele, Lea and Flood, "Fast splittable
  // pseudorandom number generators", 2014), with arithmetic shifts.
  const auto number = [](uint64_t bits) { return static_cast<int64_t>(bits); };
  at::Tensor weights = scratch.weights;
  at::Tensor shifted = scratch.products;
  const auto mix = [&](int bits) {
    at::bitwise_right_shift_out(shifted, weights, bits);
    weights.bitwise_xor_(shifted);
  };
  at::arange_out(weights, weights.numel());
  weights.add_(1).mul_(number(0x9e3779b97f4a7c15));
  mix(30);
  weights.mul_(number(0xbf58476d1ce4e5b9));
  mix(27);
  weights.mul_(number(0x94d049bb133111eb));
  mix(31);
  weights.bitwise_or_(1);
}

void SumBytes(const at::Tensor& bytes, const DigestScratch& scratch,
              at::Tensor* sum) {
  constexpr int64_t kSize = sizeof(int32_t);
  const int64_t words = bytes.numel() / kSize;
  const at::Tensor rest = bytes.slice(0, words * kSize);
  if (words == 0) return SumWords(rest, scratch, sum);
  SumWords(FlatTensor(bytes.storage(), at::kInt, 0, words), scratch, sum);
  if (rest.numel() == 0) return;
  at::Tensor of_rest = scratch.sums.select(0, 0);
  SumWords(rest, scratch, &of_rest);
  sum->mul_(kFactorOfWords).add_(of_rest);
}

void SumWords(const at::Tensor& words, const DigestScratch& scratch,
              at::Tensor* sum) {
  const auto add = [&scratch](const at::Tensor& of, at::Tensor to) {
    at::Tensor products = scratch.products.narrow(0, 0, of.numel());
    at::mul_out(products, of, scratch.weights.narrow(0, 0, of.numel()));
    at::sum_out(to, products, at::OptionalIntArrayRef(), /*keepdim=*/false,
                at::kLong);
  };
  const int64_t piece = scratch.weights.numel();
  const int64_t pieces = (words.numel() - 1) / piece + 1;
  if (pieces == 1) return add(words, *sum);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t count = std::min(piece, words.numel() - i * piece);
    add(words.narrow(0, i * piece, count), scratch.sums.select(0, i));
  }
  SumWords(scratch.sums.narrow(0, 0, pieces), scratch, sum);
}

}  // namespace ebbtide
