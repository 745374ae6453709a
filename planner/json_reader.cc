#include "planner/json_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;

// Describes the content of `node`, short enough for a message.
std::string Describe(const Json& node) {
  if (node.is_structured()) return absl::StrCat("an ", node.type_name());
  std::string text = node.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongest = 40;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string Range(int64_t low, int64_t high) {
  if (high == JsonReader::kMax) {
    return absl::StrCat("a whole number of at least ", low);
  }
  if (low == 0) return absl::StrCat("a value below ", high + 1);
  return absl::StrCat("a whole number from ", low, " to ", high);
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text,
                               absl::string_view origin) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    // The library's message starts with its own error code in brackets.
    absl::string_view what = error.what();
    const size_t bracket = what.find("] ");
    if (bracket != absl::string_view::npos) what.remove_prefix(bracket + 2);
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": expected a JSON document: ", what));
  }
}

void JsonReader::Fail(absl::string_view key, absl::string_view message) {
  if (!ok()) return;
  std::string place;
  for (const Step& step : path_) {
    absl::StrAppend(&place, place.empty() ? "" : ".", step.key);
    if (step.index >= 0) absl::StrAppend(&place, "[", step.index, "]");
  }
  if (!key.empty()) {
    absl::StrAppend(&place, place.empty() || key[0] == '[' ? "" : ".", key);
  }
  status_ = absl::InvalidArgumentError(
      absl::StrCat(origin_, ": ", place, place.empty() ? "" : ": ", message));
}

void JsonReader::Members(const Json& object,
                         std::initializer_list<const char*> known) {
  if (!ok()) return;
  if (!object.is_object()) {
    Fail("", absl::StrCat("expected an object, got ", Describe(object)));
    return;
  }
  for (const auto& item : object.items()) {
    bool found = false;
    for (const char* key : known) found = found || item.key() == key;
    if (found) continue;
    std::string list;
    for (const char* key : known) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", key);
    }
    Fail("", absl::StrCat("unknown member \"", item.key(), "\"; expected only ",
                          list));
    return;
  }
}

bool JsonReader::Has(const Json& object, const char* key) const {
  return object.is_object() && object.contains(key);
}

const Json* JsonReader::Member(const Json& object, const char* key) {
  if (!ok()) return nullptr;
  if (!object.is_object()) {
    Fail("", absl::StrCat("expected an object, got ", Describe(object)));
    return nullptr;
  }
  const auto it = object.find(key);
  if (it == object.end()) {
    Fail(key, "expected this member, it is missing");
    return nullptr;
  }
  return &*it;
}

const Json* JsonReader::Array(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  if (member == nullptr || member->is_array()) return member;
  Fail(key, absl::StrCat("expected an array, got ", Describe(*member)));
  return nullptr;
}

bool JsonReader::ReadInteger(const Json& node, absl::string_view key,
                             int64_t low, int64_t high, int64_t* out) {
  const bool fits = node.is_number_integer() &&
                    (!node.is_number_unsigned() ||
                     node.get<uint64_t>() <= static_cast<uint64_t>(kMax));
  if (!fits || node.get<int64_t>() < low || node.get<int64_t>() > high) {
    Fail(key,
         absl::StrCat("expected ", Range(low, high), ", got ", Describe(node)));
    return false;
  }
  *out = node.get<int64_t>();
  return true;
}

bool JsonReader::ReadNumber(const Json& node, absl::string_view key, double low,
                            double* out) {
  if (!node.is_number() || !std::isfinite(node.get<double>()) ||
      node.get<double>() < low) {
    Fail(key, absl::StrCat("expected a number of at least ", low, ", got ",
                           Describe(node)));
    return false;
  }
  *out = node.get<double>();
  return true;
}

void JsonReader::Integer(const Json& object, const char* key, int64_t low,
                         int64_t high, int64_t* out) {
  const Json* member = Member(object, key);
  if (member != nullptr) ReadInteger(*member, key, low, high, out);
}

void JsonReader::Int(const Json& object, const char* key, int low, int64_t high,
                     int* out) {
  int64_t wide = 0;
  const Json* member = Member(object, key);
  if (member != nullptr && ReadInteger(*member, key, low, high, &wide)) {
    *out = static_cast<int>(wide);
  }
}

void JsonReader::Number(const Json& object, const char* key, double low,
                        double* out) {
  const Json* member = Member(object, key);
  if (member != nullptr) ReadNumber(*member, key, low, out);
}

void JsonReader::Bool(const Json& object, const char* key, bool* out) {
  const Json* member = Member(object, key);
  if (member == nullptr) return;
  if (!member->is_boolean()) {
    Fail(key, absl::StrCat("expected true or false, got ", Describe(*member)));
    return;
  }
  *out = member->get<bool>();
}

void JsonReader::String(const Json& object, const char* key, std::string* out) {
  const Json* member = Member(object, key);
  if (member == nullptr) return;
  if (!member->is_string()) {
    Fail(key, absl::StrCat("expected a text, got ", Describe(*member)));
    return;
  }
  *out = member->get<std::string>();
}

void JsonReader::Ints(const Json& object, const char* key, int low,
                      int64_t high, std::vector<int>* out) {
  const Json* array = Array(object, key);
  if (array == nullptr) return;
  out->clear();
  for (size_t i = 0; i < array->size(); ++i) {
    int64_t wide = 0;
    if (!ReadInteger((*array)[i], absl::StrCat(key, "[", i, "]"), low, high,
                     &wide)) {
      return;
    }
    out->push_back(static_cast<int>(wide));
  }
}

void JsonReader::Integers(const Json& object, const char* key,
                          std::vector<int64_t>* out) {
  const Json* array = Array(object, key);
  if (array == nullptr) return;
  out->clear();
  for (size_t i = 0; i < array->size(); ++i) {
    int64_t value = 0;
    if (!ReadInteger((*array)[i], absl::StrCat(key, "[", i, "]"), 0, kMax,
                     &value)) {
      return;
    }
    out->push_back(value);
  }
}

void JsonReader::Numbers(const Json& object, const char* key,
                         std::vector<double>* out) {
  const Json* array = Array(object, key);
  if (array == nullptr) return;
  out->clear();
  for (size_t i = 0; i < array->size(); ++i) {
    double value = 0;
    if (!ReadNumber((*array)[i], absl::StrCat(key, "[", i, "]"), 0, &value)) {
      return;
    }
    out->push_back(value);
  }
}

}  // namespace ebbtide
