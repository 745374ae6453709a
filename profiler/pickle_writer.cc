#include "profiler/pickle_writer.h"

namespace ebbtide {

void PickleWriter::Bytes(uint64_t value, int count) {
  for (int i = 0; i < count; ++i) {
    out_.put(static_cast<char>(value >> (8 * i)));
  }
}

void PickleWriter::Int(int64_t value) {
  if (value >= 0 && value < 256) {
    out_.put('K');
    Bytes(value, 1);
  } else if (value >= 0 && value < 65536) {
    out_.put('M');
    Bytes(value, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    out_.put('J');
    Bytes(static_cast<uint64_t>(value), 4);
  } else {
    out_ << "\x8a\x08";
    Bytes(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::Get(int memo) {
  out_.put(memo < 256 ? 'h' : 'j');
  Bytes(memo, memo < 256 ? 1 : 4);
}

void PickleWriter::Text(absl::string_view text) {
  const auto [known, is_new] = texts_.try_emplace(std::string(text), memos_);
  if (!is_new) return Get(known->second);
  if (text.size() < 256) {
    out_.put('\x8c');
    Bytes(text.size(), 1);
  } else {
    out_.put('X');
    Bytes(text.size(), 4);
  }
  out_ << text << '\x94';
  ++memos_;
}

void PickleWriter::Frames(absl::string_view name) {
  const auto known = frames_.find(name);
  if (known != frames_.end()) return Get(known->second);
  BeginList();
  BeginDict();
  Text("filename");
  Text("");
  Text("line");
  Int(0);
  Text("name");
  Text(name);
  EndDict();
  EndList();
  out_.put('\x94');
  frames_.emplace(name, memos_++);
}

}  // namespace ebbtide
