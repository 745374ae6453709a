// The order of queued ops, by vector clocks: streams, waits for events and
// waits of the host make order; the time at which an op happened to run does
// not. So what is found unordered is so under every schedule.
#ifndef EBBTIDE_TESTS_CUDASIM_ORDER_H_
#define EBBTIDE_TESTS_CUDASIM_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cudasim {

// The n-th op of a stream; both count from 1.
struct OpId {
  uint32_t stream = 0;
  uint64_t number = 0;
};

// For every stream, how many of its first ops come before.
class Order {
 public:
  bool Includes(OpId op) const {
    return op.stream < counts_.size() && counts_[op.stream] >= op.number;
  }
  void Add(OpId op) {
    if (op.stream >= counts_.size()) counts_.resize(op.stream + 1, 0);
    counts_[op.stream] = std::max(counts_[op.stream], op.number);
  }
  void Add(const Order& other) {
    if (other.counts_.size() > counts_.size()) {
      counts_.resize(other.counts_.size(), 0);
    }
    for (size_t i = 0; i < other.counts_.size(); ++i) {
      counts_[i] = std::max(counts_[i], other.counts_[i]);
    }
  }

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_ORDER_H_
