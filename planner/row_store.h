// Memory for the rows of a table, which live as long as it does. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_ROW_STORE_H_
#define EBBTIDE_PLANNER_ROW_STORE_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace ebbtide {

template <class T>
class RowStore {
 public:
  // Room for `count` elements, not initialised.
  T* Take(size_t count) {
    if (count > left_) {
      left_ = std::max(count, kChunk);
      chunks_.push_back(Chunk(left_, /*is_first=*/chunks_.empty()));
      next_ = chunks_.back().get();
      used_ += left_;
    }
    T* taken = next_;
    next_ += count;
    left_ -= count;
    return taken;
  }

  size_t MemoryUsed() const { return used_ * sizeof(T); }

 private:
  static constexpr size_t kChunk = size_t{1} << 20;
  static constexpr size_t kHugePage = size_t{2} << 20;

  struct Free {
    void operator()(T* chunk) const { std::free(chunk); }
  };
  using Memory = std::unique_ptr<T[], Free>;

  // A row is about a page, and rows are read in no order: in small pages each
  // would be looked up anew. Most tables have one chunk, and it is one that an
  // earlier table had.
  static Memory Chunk(size_t count, bool is_first) {
    const size_t bytes =
        (count * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
    void* const chunk =
        is_first ? std::malloc(bytes) : std::aligned_alloc(kHugePage, bytes);
    if (chunk == nullptr) throw std::bad_alloc();
    if (!is_first) madvise(chunk, bytes, MADV_HUGEPAGE);
    return Memory(static_cast<T*>(chunk));
  }

  std::vector<Memory> chunks_;
  T* next_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ROW_STORE_H_
