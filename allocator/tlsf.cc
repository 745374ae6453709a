#include "allocator/tlsf.h"

#include <bit>

#include "planner/check.h"

namespace ebbtide {
namespace {

// Blocks of a request's own class that are looked at, some of which fit.
constexpr int kFew = 8;

int64_t Grains(Bytes size) {
  return (Count(size) + Count(Tlsf::kGrain) - 1) / Count(Tlsf::kGrain);
}

}  // namespace

Tlsf::SizeClass Tlsf::ClassOf(int64_t size) {
  const int first = std::bit_width(static_cast<uint64_t>(size)) - 1;
  // Of powers of two below sixteen grains some classes stay empty.
  const int64_t within = size - (int64_t{1} << first);
  const int second = static_cast<int>((within << kSecondBits) >> first);
  return {first, second};
}

Tlsf::SizeClass Tlsf::ClassFor(int64_t size) {
  const int first = std::bit_width(static_cast<uint64_t>(size)) - 1;
  const int64_t step = (int64_t{1} << first) >> kSecondBits;
  return ClassOf(step > 1 ? size + step - 1 : size);
}

int Tlsf::NewBlock(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<int>(blocks_.size()) - 1;
  }
  const int index = unused_.back();
  unused_.pop_back();
  blocks_[index] = block;
  return index;
}

void Tlsf::List(int index) {
  Block& block = blocks_[index];
  const auto [first, second] = ClassOf(block.size);
  int& head = heads_[first][second];
  block.is_free = true;
  block.previous = kNone;
  block.next = head;
  if (head != kNone) blocks_[head].previous = index;
  head = index;
  firsts_ |= uint64_t{1} << first;
  seconds_[first] |= uint32_t{1} << second;
  free_ += block.size;
  ++holes_;
}

void Tlsf::Unlist(int index) {
  Block& block = blocks_[index];
  const auto [first, second] = ClassOf(block.size);
  int& head = heads_[first][second];
  if (block.next != kNone) blocks_[block.next].previous = block.previous;
  if (block.previous != kNone) {
    blocks_[block.previous].next = block.next;
  } else {
    head = block.next;
  }
  if (head == kNone) {
    seconds_[first] &= ~(uint32_t{1} << second);
    if (seconds_[first] == 0) firsts_ &= ~(uint64_t{1} << first);
  }
  block.is_free = false;
  free_ -= block.size;
  --holes_;
}

void Tlsf::AddRange(Extent range) {
  const int64_t grain = Count(kGrain);
  EBBTIDE_CHECK(range.offset % grain == 0 && Count(range.size) % grain == 0 &&
                range.size > Bytes{0});
  const int index =
      NewBlock({.begin = static_cast<int>(range.offset / grain),
                .size = static_cast<int>(Count(range.size) / grain)});
  ranges_.push_back(index);
  List(index);
}

int Tlsf::FirstFrom(SizeClass from) const {
  uint32_t seconds = seconds_[from.first] & (~uint32_t{0} << from.second);
  int first = from.first;
  if (seconds == 0) {
    const uint64_t above = firsts_ & (~uint64_t{1} << from.first);
    if (above == 0) return kNone;
    first = std::countr_zero(above);
    seconds = seconds_[first];
  }
  return heads_[first][std::countr_zero(seconds)];
}

int Tlsf::FewOf(SizeClass own, int64_t size) const {
  int index = heads_[own.first][own.second];
  for (int i = 0; i < kFew && index != kNone; ++i) {
    if (blocks_[index].size >= size) return index;
    index = blocks_[index].next;
  }
  return kNone;
}

void Tlsf::CutOff(int index, int64_t size) {
  const Block block = blocks_[index];
  if (block.size == size) return;
  const int rest = NewBlock({.begin = static_cast<int>(block.begin + size),
                             .size = static_cast<int>(block.size - size),
                             .below = index,
                             .above = block.above});
  blocks_[index].size = size;
  blocks_[index].above = rest;
  if (block.above != kNone) blocks_[block.above].below = rest;
  List(rest);
}

std::optional<Extent> Tlsf::Take(Bytes size) {
  const int64_t grains = Grains(size);
  int index = FirstFrom(ClassFor(grains));
  if (index == kNone) index = FewOf(ClassOf(grains), grains);
  if (index == kNone) return std::nullopt;
  Unlist(index);
  CutOff(index, grains);
  used_ += grains;
  const int64_t begin = blocks_[index].begin * Count(kGrain);
  taken_[begin] = index;
  return Extent{begin, Bytes{grains * Count(kGrain)}};
}

void Tlsf::Join(int below, int above) {
  const Block gone = blocks_[above];
  blocks_[below].size += gone.size;
  blocks_[below].above = gone.above;
  if (gone.above != kNone) blocks_[gone.above].below = below;
  unused_.push_back(above);
}

bool Tlsf::Give(int64_t offset) {
  const auto found = taken_.find(offset);
  if (found == taken_.end()) return false;
  int index = found->second;
  taken_.erase(found);
  used_ -= blocks_[index].size;
  const int above = blocks_[index].above;
  if (above != kNone && blocks_[above].is_free) {
    Unlist(above);
    Join(index, above);
  }
  const int below = blocks_[index].below;
  if (below != kNone && blocks_[below].is_free) {
    Unlist(below);
    Join(below, index);
    index = below;
  }
  List(index);
  return true;
}

std::optional<Bytes> Tlsf::SizeOf(int64_t offset) const {
  const auto found = taken_.find(offset);
  if (found == taken_.end()) return std::nullopt;
  return Bytes{blocks_[found->second].size * Count(kGrain)};
}

bool Tlsf::CheckLists() const {
  int64_t listed = 0;
  for (int first = 0; first < kFirsts; ++first) {
    for (int second = 0; second < kSeconds; ++second) {
      int previous = kNone;
      for (int i = heads_[first][second]; i != kNone; i = blocks_[i].next) {
        const auto [f, s] = ClassOf(blocks_[i].size);
        if (f != first || s != second || !blocks_[i].is_free) return false;
        if (blocks_[i].previous != previous) return false;
        previous = i;
        ++listed;
      }
      const bool has_one = (seconds_[first] >> second & 1) != 0;
      if (has_one != (previous != kNone)) return false;
    }
    if ((firsts_ >> first & 1) != (seconds_[first] != 0)) return false;
  }
  return listed == holes_;
}

bool Tlsf::Check() const {
  int64_t used = 0, free = 0, holes = 0, taken = 0;
  for (const int lowest : ranges_) {
    int below = kNone;
    for (int i = lowest; i != kNone; i = blocks_[i].above) {
      const Block& block = blocks_[i];
      if (block.below != below || block.size <= 0) return false;
      if (below != kNone) {
        const Block& neighbour = blocks_[below];
        if (neighbour.begin + neighbour.size != block.begin) return false;
        if (neighbour.is_free && block.is_free) return false;
      }
      if (block.is_free) {
        free += block.size;
        ++holes;
      } else {
        used += block.size;
        const auto found = taken_.find(block.begin * Count(kGrain));
        if (found == taken_.end() || found->second != i) return false;
        ++taken;
      }
      below = i;
    }
  }
  return used == used_ && free == free_ && holes == holes_ &&
         taken == static_cast<int64_t>(taken_.size()) && CheckLists();
}

}  // namespace ebbtide
