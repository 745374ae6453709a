// How fast a lane copies, as seen lately.
#ifndef EBBTIDE_ALLOCATOR_RATE_H_
#define EBBTIDE_ALLOCATOR_RATE_H_

#include <atomic>

namespace ebbtide {

// The ratio of two moving averages, so that a copy counts by its bytes. Added
// to by one thread at a time, read by any.
class Rate {
 public:
  void Add(double bytes, double seconds) {
    const double weight = seconds_ == 0 ? 1 : kNewest;
    bytes_ += weight * (bytes - bytes_);
    seconds_ += weight * (seconds - seconds_);
    per_second_ = bytes_ / seconds_;
  }
  double per_second() const { return per_second_; }  // 0 before the first

 private:
  // Weight of the newest copy: the rate follows a change within about 8 copies.
  static constexpr double kNewest = 1.0 / 8;

  double bytes_ = 0;
  double seconds_ = 0;
  std::atomic<double> per_second_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_RATE_H_
