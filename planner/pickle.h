// Reads Python pickles that hold plain data only: None, truth values, numbers,
// strings, lists, tuples and dictionaries, as protocols 2 to 5 write them.
// Nothing is ever called: what names a class or a function is refused.
#ifndef EBBTIDE_PLANNER_PICKLE_H_
#define EBBTIDE_PLANNER_PICKLE_H_

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebbtide {

// Values are known by their numbers, since a pickle may have one of them in
// several places, or within itself.
class Pickle {
 public:
  using Id = int;
  using List = std::vector<Id>;                       // or a tuple
  using Dictionary = std::vector<std::pair<Id, Id>>;  // as written; last counts
  using Value = std::variant<std::monostate, bool, int64_t, double,
                             absl::string_view, List, Dictionary>;

  // `text` has to outlive the answer. InvalidArgument, naming the byte and what
  // was expected there.
  static absl::StatusOr<Pickle> Parse(absl::string_view text);

  const Value& root() const { return values_[root_]; }
  const Value& operator[](Id id) const { return values_[id]; }
  // Under a string; nullptr if this is no dictionary or does not have it.
  const Value* Find(const Value& dictionary, absl::string_view key) const;

 private:
  friend class PickleReader;

  std::vector<Value> values_;
  Id root_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PICKLE_H_
