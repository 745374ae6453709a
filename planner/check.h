// A check that abseil 20220623 does not have: for ebbtide's own bugs only.
// Expected failures are returned as absl::Status.
#ifndef EBBTIDE_PLANNER_CHECK_H_
#define EBBTIDE_PLANNER_CHECK_H_

#include <stdexcept>
#include <string>

namespace ebbtide {

// A broken invariant of ours. The runtime catches it at its edges and steps
// aside; it never reaches the user's program.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void FailCheck(const char* condition, const char* file,
                                   int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition);
}

}  // namespace ebbtide

#define EBBTIDE_CHECK(condition) \
  ((condition) ? void(0) : ::ebbtide::FailCheck(#condition, __FILE__, __LINE__))

#endif  // EBBTIDE_PLANNER_CHECK_H_
