// Writes Python pickles of plain data (protocol 4) piece by piece: None is not
// among it, nor anything that a reader would have to call.
#ifndef EBBTIDE_PROFILER_PICKLE_WRITER_H_
#define EBBTIDE_PROFILER_PICKLE_WRITER_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace ebbtide {

// Calls are in the order of the values: what BeginList and BeginDict open, the
// next EndList or EndDict closes. A dictionary's keys and values alternate.
// Containers of any length take no memory here.
class PickleWriter {
 public:
  explicit PickleWriter(std::ostream& out) : out_(out) { out_ << "\x80\x04"; }
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  void BeginList() { out_ << "]("; }
  void EndList() { out_ << 'e'; }
  // Later items are added to the open list in another go: a reader may hold the
  // items of one go twice.
  void NextPart() { out_ << "e("; }
  void BeginDict() { out_ << "}("; }
  void EndDict() { out_ << 'u'; }
  void Int(int64_t value);
  // Written once, then referred to.
  void Text(absl::string_view text);
  // A list that has one dictionary, {"filename": "", "line": 0, "name": name}.
  void Frames(absl::string_view name);
  void End() { out_ << '.'; }

 private:
  void Bytes(uint64_t value, int count);
  void Get(int memo);

  std::ostream& out_;
  int memos_ = 0;
  absl::flat_hash_map<std::string, int> texts_;
  absl::flat_hash_map<std::string, int> frames_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_PICKLE_WRITER_H_
