// Recent speed of a copy lane.
#ifndef EBBTIDE_ALLOCATOR_RATE_H_
#define EBBTIDE_ALLOCATOR_RATE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace ebbtide {

// All bytes by all seconds of the last copies but the slowest two: one that a
// stopped process, or another one's disk cache, has delayed says nothing about
// the next. Added to by one thread at a time, read by any.
class Rate {
 public:
  void Add(double bytes, double seconds) {
    last_[added_++ % last_.size()] = {bytes, seconds};
    auto known = last_;
    const size_t count = std::min(added_, known.size());
    std::sort(known.begin(), known.begin() + count,
              [](const Copy& a, const Copy& b) {
                return a.seconds * b.bytes < b.seconds * a.bytes;
              });
    Copy sum;
    for (size_t i = 0; i < count - count / 8; ++i) {
      sum.bytes += known[i].bytes;
      sum.seconds += known[i].seconds;
    }
    per_second_ = sum.bytes / sum.seconds;
  }
  double per_second() const { return per_second_; }  // 0 before the first

 private:
  struct Copy {
    double bytes = 0;
    double seconds = 0;
  };

  std::array<Copy, 16> last_;
  size_t added_ = 0;
  std::atomic<double> per_second_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_RATE_H_
