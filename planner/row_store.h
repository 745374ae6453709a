// Memory for the rows of a table, which live as long as it does. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_ROW_STORE_H_
#define EBBTIDE_PLANNER_ROW_STORE_H_

#include <algorithm>
#include <memory>
#include <vector>

namespace ebbtide {

template <class T>
class RowStore {
 public:
  // Room for `count` elements, not initialised.
  T* Take(size_t count) {
    if (count > left_) {
      left_ = std::max(count, kChunk);
      chunks_.push_back(std::make_unique_for_overwrite<T[]>(left_));
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

  std::vector<std::unique_ptr<T[]>> chunks_;
  T* next_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ROW_STORE_H_
