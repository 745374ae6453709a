#include "allocator/arena_space.h"

#include <algorithm>
#include <iterator>

namespace ebbtide {
namespace {

constexpr Bytes kEndless{int64_t{1} << 46};

}  // namespace

ArenaSpace::ArenaSpace(char* base) { Append({.base = base, .size = kEndless}); }

void ArenaSpace::Append(const ArenaRun& run) {
  begins_.push_back(next());
  runs_.push_back(run);
  const auto above = std::upper_bound(
      by_address_.begin(), by_address_.end(), run.base,
      [&](const char* base, size_t i) { return base < runs_[i].base; });
  by_address_.insert(above, runs_.size() - 1);
}

int64_t ArenaSpace::next() const {
  if (runs_.empty()) return 0;
  return begins_.back() + Count(runs_.back().size) + kArenaGrain;
}

std::optional<size_t> ArenaSpace::RunAt(int64_t offset) const {
  const auto above = std::upper_bound(begins_.begin(), begins_.end(), offset);
  if (above == begins_.begin()) return std::nullopt;
  const auto run = static_cast<size_t>(above - begins_.begin()) - 1;
  return offset < EndOf(run) ? std::optional(run) : std::nullopt;
}

char* ArenaSpace::At(int64_t offset) const {
  const auto above = std::upper_bound(begins_.begin(), begins_.end(), offset);
  const auto run = static_cast<size_t>(above - begins_.begin()) - 1;
  return runs_[run].base + (offset - begins_[run]);
}

const ArenaRun* ArenaSpace::RunOf(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  const auto above = std::upper_bound(
      by_address_.begin(), by_address_.end(), at,
      [&](const char* a, size_t i) { return a < runs_[i].base; });
  if (above == by_address_.begin()) return nullptr;
  const ArenaRun& run = runs_[*std::prev(above)];
  return at < run.end() ? &run : nullptr;
}

std::optional<int64_t> ArenaSpace::OffsetOf(const void* address) const {
  const ArenaRun* const run = RunOf(address);
  if (run == nullptr) return std::nullopt;
  return begins_[run - runs_.data()] +
         (static_cast<const char*>(address) - run->base);
}

std::vector<int64_t> ArenaSpace::Walls() const {
  std::vector<int64_t> walls;
  for (size_t i = 0; i < runs_.size(); ++i) {
    walls.push_back(EndOf(i));
  }
  return walls;
}

Bytes ArenaSpace::size() const {
  Bytes size{};
  for (const ArenaRun& run : runs_) size += run.size;
  return size;
}

}  // namespace ebbtide
