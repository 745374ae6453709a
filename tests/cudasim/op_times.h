// OpTimes is a table of how long ops take on a device, by name, types and
// shapes (OpKey in timed_op.h).
//
// The file has a line for each op, nanoseconds and the op behind a tab. Lines
// that begin with # are comments.
#ifndef EBBTIDE_TESTS_CUDASIM_OP_TIMES_H_
#define EBBTIDE_TESTS_CUDASIM_OP_TIMES_H_

#include <optional>
#include <string>
#include <unordered_map>

namespace cudasim {

class OpTimes {
 public:
  // Returns nullopt where a line has no positive, finite time, no op, or one
  // that an earlier line has; `error` then names file, line and op.
  static std::optional<OpTimes> Read(const std::string& path,
                                     std::string* error);

  std::optional<double> Find(const std::string& op) const;
  size_t size() const { return times_.size(); }

 private:
  std::unordered_map<std::string, double> times_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_OP_TIMES_H_
