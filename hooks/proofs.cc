#include "hooks/proofs.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "absl/cleanup/cleanup.h"
#include "hooks/device.h"
#include "hooks/insist.h"
#include "hooks/replay.h"
#include "hooks/tape.h"

namespace ebbtide {
namespace {

// Elements that are compared at once: the result takes so many bytes.
constexpr int64_t kPiece = 2 << 20;
// As many as the smallest block of PyTorch's allocator has bytes.
constexpr int kMostFlags = 512;

// Where both begin at a word, words.
at::ScalarType UnitOf(const BytePair& pair) {
  const auto is_whole = [](size_t bytes) {
    return bytes % sizeof(int64_t) == 0;
  };
  const bool has_words = is_whole(pair.first.begin) &&
                         is_whole(pair.second.begin) &&
                         is_whole(pair.first.size);
  return has_words ? at::kLong : at::kByte;
}

int64_t UnitsOf(const BytePair& pair) {
  return static_cast<int64_t>(pair.first.size / at::elementSize(UnitOf(pair)));
}

at::Tensor Units(const ByteRange& range, at::ScalarType unit, int64_t offset,
                 int64_t count) {
  const auto size = static_cast<int64_t>(at::elementSize(unit));
  return FlatTensor(range.storage, unit,
                    static_cast<int64_t>(range.begin) / size + offset, count);
}

at::Tensor FlagAt(const c10::Storage& flags, int index) {
  return FlatTensor(flags, at::kBool, index, 1).squeeze(0);
}

const char* Data(const ByteRange& range) {
  return static_cast<const char*>(range.storage.data()) + range.begin;
}

}  // namespace

bool Proofs::Compare(const std::vector<BytePair>& pairs, Then then) {
  int64_t units = 0;
  for (const BytePair& pair : pairs) units += UnitsOf(pair);
  if (units == 0 || !Device::Get().is_async()) {
    then(std::all_of(pairs.begin(), pairs.end(), [](const BytePair& pair) {
      return std::memcmp(Data(pair.first), Data(pair.second),
                         pair.first.size) == 0;
    }));
    return false;
  }
  const int64_t piece = std::max(kPiece, units / (kMostFlags / 2));
  const auto pieces = static_cast<int>(units / piece + pairs.size());
  const int device = Device::IndexOf(pairs[0].first.storage);
  if (flags_[FlagsOf(device)].used + pieces > kMostFlags) Settle();
  const size_t index = FlagsOf(device);
  Flags& flags = flags_[index];
  const int begin = flags.used;
  const ReplayScope scope;
  is_comparing_ = true;
  const auto compared = absl::MakeCleanup([this] { is_comparing_ = false; });
  UseHere(&flags);
  for (const BytePair& pair : pairs) Raise(pair, piece, &flags);
  open_.push_back({index, begin, flags.used, std::move(then)});
  return true;
}

size_t Proofs::FlagsOf(int device) {
  const auto known = std::find_if(
      flags_.begin(), flags_.end(),
      [device](const Flags& flags) { return flags.device == device; });
  if (known != flags_.end()) return known - flags_.begin();
  flags_.push_back({.device = device});
  return flags_.size() - 1;
}

void Proofs::UseHere(Flags* flags) {
  Device& device = Device::Get();
  const c10::Stream here = device.CurrentStream(flags->device);
  auto& streams = flags->streams;
  if (std::find(streams.begin(), streams.end(), here) != streams.end()) return;
  if (streams.empty()) {
    flags->raised = device.Allocate(kMostFlags, flags->device);
  } else {
    device.Order(streams.front(), here);
  }
  streams.push_back(here);
}

void Proofs::Raise(const BytePair& pair, int64_t piece, Flags* flags) {
  const at::ScalarType unit = UnitOf(pair);
  const int64_t count = UnitsOf(pair);
  for (int64_t done = 0; done < count; done += piece) {
    const int64_t part = std::min(piece, count - done);
    at::Tensor flag = FlagAt(flags->raised, flags->used);
    at::any_out(flag, at::ne(Units(pair.first, unit, done, part),
                             Units(pair.second, unit, done, part)));
    ++flags->used;
  }
}

std::vector<bool> Proofs::Read(const Flags& flags) {
  if (flags.used == 0) return {};
  Device& device = Device::Get();
  return Insist([&] {
    const c10::Stream here = device.CurrentStream(flags.device);
    for (const c10::Stream& stream : flags.streams) device.Order(stream, here);
    const c10::Storage read = device.OnHost(flags.raised);
    const auto* const bytes = static_cast<const char*>(read.data());
    return std::vector<bool>(bytes, bytes + flags.used);
  });
}

void Proofs::Settle() {
  if (is_comparing_) return;
  const auto open = std::exchange(open_, {});
  std::vector<std::optional<std::vector<bool>>> raised;
  for (const Flags& flags : flags_) {
    try {
      raised.emplace_back(Read(flags));
    } catch (const std::exception&) {
      raised.emplace_back();
    }
  }
  flags_.clear();
  for (const Open& one : open) {
    const auto& flags = raised[one.flags];
    if (!flags) {
      one.then(std::nullopt);
    } else {
      one.then(std::none_of(flags->begin() + one.begin,
                            flags->begin() + one.end,
                            [](bool differs) { return differs; }));
    }
  }
}

bool AreEqualNow(const c10::Storage& a, const c10::Storage& b) {
  std::optional<bool> are_equal;
  Proofs proofs;
  proofs.Compare({{{a, 0, a.nbytes()}, {b, 0, b.nbytes()}}},
                 [&](std::optional<bool> answer) { are_equal = answer; });
  proofs.Settle();
  return are_equal.value_or(false);
}

}  // namespace ebbtide
