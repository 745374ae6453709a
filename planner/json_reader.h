// Reads the members of a parsed JSON document and remembers the first thing
// that is not as expected, with its place: `step.json: ops[3].inputs[0]:
// expected a value below 12, got 40`. After the first error every read leaves
// its output alone, so callers check status() once, at the end.
// Private to the text forms of the planner; not thread-safe.
#ifndef EBBTIDE_PLANNER_JSON_READER_H_
#define EBBTIDE_PLANNER_JSON_READER_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebbtide {

// The document, or where it stops being JSON.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         absl::string_view origin);

class JsonReader {
 public:
  using Json = nlohmann::json;
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

  explicit JsonReader(absl::string_view origin) : origin_(origin) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

  // Refuses members of `object` that are not in `known`, and non-objects.
  void Members(const Json& object, std::initializer_list<const char*> known);
  bool Has(const Json& object, const char* key) const;

  void Integer(const Json& object, const char* key, int64_t low, int64_t high,
               int64_t* out);
  void Int(const Json& object, const char* key, int low, int64_t high,
           int* out);
  // Finite and at least `low`.
  void Number(const Json& object, const char* key, double low, double* out);
  void Bool(const Json& object, const char* key, bool* out);
  void String(const Json& object, const char* key, std::string* out);
  // Array of integers in [low, high].
  void Ints(const Json& object, const char* key, int low, int64_t high,
            std::vector<int>* out);
  void Integers(const Json& object, const char* key, std::vector<int64_t>* out);
  void Numbers(const Json& object, const char* key, std::vector<double>* out);

  // Calls `read(element)` for each element of the array `key`, which must be
  // there.
  template <class Function>
  void Each(const Json& object, const char* key, Function read) {
    const Json* array = Array(object, key);
    if (array == nullptr) return;
    path_.push_back({key, -1});
    for (size_t i = 0; i < array->size() && ok(); ++i) {
      path_.back().index = static_cast<int64_t>(i);
      read((*array)[i]);
    }
    path_.pop_back();
  }
  // Calls `read(member)` for the object `key`, which must be there.
  template <class Function>
  void Object(const Json& object, const char* key, Function read) {
    const Json* member = Member(object, key);
    if (member == nullptr) return;
    path_.push_back({key, -1});
    read(*member);
    path_.pop_back();
  }

  // Records an error at `key` of the present place ("" for the place itself).
  void Fail(absl::string_view key, absl::string_view message);

 private:
  struct Step {
    const char* key;
    int64_t index;  // -1: the member itself
  };

  const Json* Member(const Json& object, const char* key);
  const Json* Array(const Json& object, const char* key);
  // The integer at `node`, or fails at `key`.
  bool ReadInteger(const Json& node, absl::string_view key, int64_t low,
                   int64_t high, int64_t* out);
  bool ReadNumber(const Json& node, absl::string_view key, double low,
                  double* out);

  std::string origin_;
  std::vector<Step> path_;
  absl::Status status_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_JSON_READER_H_
