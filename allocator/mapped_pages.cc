#include "allocator/mapped_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace ebbtide {
namespace {

constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;

void* RealMap(size_t size) {
  void* const address = mmap(nullptr, size, kProtection, kFlags, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

bool RealUnmap(void* address, size_t size) {
  return munmap(address, size) == 0;
}

bool RealMove(void* from, size_t size, void* to) {
  if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) {
    return true;
  }
  // The system may have unmapped `to` before it found a reason to refuse.
  void* const again =
      mmap(to, size, kProtection, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
  // Linux before 4.17 takes the address for a wish.
  if (again != MAP_FAILED && again != to) munmap(again, size);
  return false;
}

}  // namespace

const ArenaSystem& ArenaSystem::Real() {
  static constexpr ArenaSystem kReal = {RealMap, RealUnmap, RealMove};
  return kReal;
}

char* MappedPages::Map(Bytes size) {
  return static_cast<char*>(system_.map(Count(size)));
}

bool MappedPages::Unmap(char* address, Bytes size) {
  if (!system_.unmap(address, Count(size))) return false;
  ForgetSeams(address, size);
  return true;
}

Bytes MappedPages::Move(char* from, Bytes size, char* to) {
  int64_t done = 0;
  while (done < Count(size)) {
    char* const source = from + done;
    const auto seam = seams_.upper_bound(source);
    int64_t piece = Count(size) - done;
    if (seam != seams_.end()) {
      piece = std::min<int64_t>(piece, *seam - source);
    }
    const bool gone = piece < Count(kSmallestMoved)
                          ? Unmap(source, Bytes{piece})
                          : MovePiece(source, piece, to + done);
    if (!gone) break;
    done += piece;
  }
  return Bytes{done};
}

bool MappedPages::MovePiece(char* from, int64_t size, char* to) {
  if (!MayMove() || !NoteSeams(to, to + size)) return false;
  if (!system_.move(from, size, to)) return false;
  ForgetSeams(from, Bytes{size});
  return true;
}

bool MappedPages::NoteSeams(char* begin, char* end) {
  try {
    seams_.insert({begin, end});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void MappedPages::ForgetSeams(char* address, Bytes size) {
  seams_.erase(seams_.lower_bound(address),
               seams_.upper_bound(address + Count(size)));
}

}  // namespace ebbtide
