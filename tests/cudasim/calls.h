// Counts the calls of each function, and makes some of them fail.
#ifndef EBBTIDE_TESTS_CUDASIM_CALLS_H_
#define EBBTIDE_TESTS_CUDASIM_CALLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cudasim {

// Not thread-safe: the simulator's lock is held around every call.
class Calls {
 public:
  // Counts, and returns the error that the call fails with, or 0.
  int Enter(std::string_view function);
  // After `after` more calls, `times` of them fail (-1: all that follow).
  void Fail(std::string_view function, int64_t after, int64_t times, int error);
  // Reads FUNCTION:AFTER:TIMES:ERROR,...; false where the text is not that.
  bool FailAll(std::string_view text);
  uint64_t count(std::string_view function) const;

  // After `after` more calls, of whatever functions but cudaGetDevice, one
  // fails; and the number of these.
  void FailOne(int64_t after, int error);
  uint64_t total() const { return total_; }
  // True if the last Enter was that one.
  bool hit() const { return hit_; }
  // True if the last Enter is among those that may fail.
  bool is_work() const { return is_work_; }

 private:
  struct Fault {
    int64_t after;
    int64_t times;
    int error;
  };
  int ErrorOf(std::string_view function);

  uint64_t total_ = 0;
  uint64_t failing_ = 0;  // which of all calls; 0: none
  int failing_error_ = 0;
  bool hit_ = false;
  bool is_work_ = false;
  std::map<std::string, uint64_t, std::less<>> counts_;
  std::map<std::string, Fault, std::less<>> faults_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CALLS_H_
