#include "planner/pickle.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ebbtide {
namespace {

// Opcodes of Python's pickletools.
enum Op : unsigned char {
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDictionary = '}',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr int kLastProtocol = 5;

}  // namespace

class PickleReader {
 public:
  explicit PickleReader(absl::string_view text) : text_(text) {}

  absl::StatusOr<Pickle> Read() {
    while (true) {
      begin_ = at_;
      uint64_t op = 0;
      if (!Number(1, &op)) return Wrong("expected a pickle's end");
      if (op == kStop) break;
      if (auto s = Do(static_cast<unsigned char>(op)); !s.ok()) return s;
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      return Wrong("expected one value at the end, got ", stack_.size());
    }
    pickle_.root_ = stack_[0];
    return std::move(pickle_);
  }

 private:
  template <class... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", begin_, ": ", parts...));
  }
  absl::Status Short() const { return Wrong("expected more bytes"); }

  bool Take(uint64_t size, absl::string_view* bytes) {
    if (size > text_.size() - at_) return false;
    *bytes = text_.substr(at_, size);
    at_ += size;
    return true;
  }

  // Little endian, at most 8 bytes.
  bool Number(int size, uint64_t* number) {
    absl::string_view bytes;
    if (!Take(size, &bytes)) return false;
    *number = 0;
    for (int k = size - 1; k >= 0; --k) {
      *number = *number << 8 | static_cast<unsigned char>(bytes[k]);
    }
    return true;
  }

  absl::Status Push(Pickle::Value value) {
    pickle_.values_.push_back(std::move(value));
    stack_.push_back(static_cast<Pickle::Id>(pickle_.values_.size()) - 1);
    return absl::OkStatus();
  }

  absl::Status Do(unsigned char op) {
    switch (op) {
      case kProtocol:
        return Protocol();
      case kFrame: {
        uint64_t size = 0;
        return Number(8, &size) ? absl::OkStatus() : Short();
      }
      case kMark:
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case kNone:
        return Push(std::monostate());
      case kTrue:
      case kFalse:
        return Push(op == kTrue);
      case kBinInt:
      case kBinInt1:
      case kBinInt2:
      case kLong1:
      case kBinFloat:
        return ReadNumber(op);
      case kShortBinUnicode:
        return ReadString(1);
      case kBinUnicode:
        return ReadString(4);
      case kBinUnicode8:
        return ReadString(8);
      case kBinGet:
      case kLongBinGet:
      case kBinPut:
      case kLongBinPut:
      case kMemoize:
        return Memo(op);
      default:
        return DoContainer(op);
    }
  }

  absl::Status DoContainer(unsigned char op) {
    switch (op) {
      case kEmptyList:
      case kEmptyTuple:
        return Push(Pickle::List());
      case kEmptyDictionary:
        return Push(Pickle::Dictionary());
      case kAppend:
        return Fill(1);
      case kSetItem:
        return Fill(2);
      case kAppends:
      case kSetItems:
        return FillFromMark();
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return MakeTuple(op - kTuple1 + 1);
      case kTuple: {
        size_t count = 0;
        if (auto s = PopMark(&count); !s.ok()) return s;
        return MakeTuple(count);
      }
      default:
        return Wrong(
            "expected None, a truth value, a number, a string, a list, a tuple "
            "or a dictionary, got the operation ",
            absl::StrFormat("0x%02x", op));
    }
  }

  absl::Status Protocol() {
    uint64_t protocol = 0;
    if (!Number(1, &protocol)) return Short();
    if (protocol > kLastProtocol) {
      return Wrong("expected a protocol of at most ", kLastProtocol, ", got ",
                   protocol);
    }
    return absl::OkStatus();
  }

  absl::Status ReadNumber(unsigned char op) {
    uint64_t bits = 0;
    if (op == kBinFloat) {
      if (!Number(8, &bits)) return Short();
      // The one number that is written with its highest byte first.
      return Push(std::bit_cast<double>(__builtin_bswap64(bits)));
    }
    if (op == kLong1) {
      uint64_t size = 0;
      if (!Number(1, &size)) return Short();
      if (size > 8) return Wrong("expected a number of at most 64 bits");
      if (!Number(static_cast<int>(size), &bits)) return Short();
      const int unused = 64 - 8 * static_cast<int>(size);
      if (size == 0) return Push(int64_t{0});
      return Push(static_cast<int64_t>(bits << unused) >> unused);
    }
    const int size = op == kBinInt ? 4 : op == kBinInt2 ? 2 : 1;
    if (!Number(size, &bits)) return Short();
    return Push(op == kBinInt ? int64_t{static_cast<int32_t>(bits)}
                              : static_cast<int64_t>(bits));
  }

  absl::Status ReadString(int width) {
    uint64_t size = 0;
    absl::string_view bytes;
    if (!Number(width, &size) || !Take(size, &bytes)) return Short();
    return Push(bytes);
  }

  absl::Status Memo(unsigned char op) {
    uint64_t key = memo_.size();
    const bool is_long = op == kLongBinGet || op == kLongBinPut;
    if (op != kMemoize && !Number(is_long ? 4 : 1, &key)) return Short();
    if (op == kBinGet || op == kLongBinGet) {
      const auto found = memo_.find(key);
      if (found == memo_.end()) {
        return Wrong("expected a value that was remembered, got number ", key);
      }
      stack_.push_back(found->second);
      return absl::OkStatus();
    }
    if (Held() == 0) return Wrong("expected a value to remember");
    memo_[key] = stack_.back();
    return absl::OkStatus();
  }

  // Values above the last mark.
  size_t Held() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
  }

  absl::Status PopMark(size_t* count) {
    if (marks_.empty()) return Wrong("expected a mark before");
    *count = Held();
    marks_.pop_back();
    return absl::OkStatus();
  }

  absl::Status FillFromMark() {
    size_t count = 0;
    if (auto s = PopMark(&count); !s.ok()) return s;
    return Fill(count);
  }

  // Adds the last values to the container that is below them.
  absl::Status Fill(size_t count) {
    if (Held() < count + 1) return Wrong("expected a container before");
    const size_t first = stack_.size() - count;
    Pickle::Value& value = pickle_.values_[stack_[first - 1]];
    if (auto* list = std::get_if<Pickle::List>(&value)) {
      list->insert(list->end(), stack_.begin() + first, stack_.end());
    } else if (auto* pairs = std::get_if<Pickle::Dictionary>(&value)) {
      if (count % 2 != 0) return Wrong("expected a value for each key");
      for (size_t k = first; k < stack_.size(); k += 2) {
        pairs->emplace_back(stack_[k], stack_[k + 1]);
      }
    } else {
      return Wrong("expected a container before");
    }
    stack_.resize(first);
    return absl::OkStatus();
  }

  absl::Status MakeTuple(size_t count) {
    if (Held() < count) return Wrong("expected ", count, " values before");
    Pickle::List items(stack_.end() - count, stack_.end());
    stack_.resize(stack_.size() - count);
    return Push(std::move(items));
  }

  const absl::string_view text_;
  size_t at_ = 0;
  size_t begin_ = 0;  // begin of the operation
  Pickle pickle_;
  std::vector<Pickle::Id> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  absl::flat_hash_map<uint64_t, Pickle::Id> memo_;
};

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view text) {
  return PickleReader(text).Read();
}

const Pickle::Value* Pickle::Find(const Value& dictionary,
                                  absl::string_view key) const {
  const auto* pairs = std::get_if<Dictionary>(&dictionary);
  if (pairs == nullptr) return nullptr;
  for (auto it = pairs->rbegin(); it != pairs->rend(); ++it) {
    const auto* name = std::get_if<absl::string_view>(&values_[it->first]);
    if (name != nullptr && *name == key) return &values_[it->second];
  }
  return nullptr;
}

}  // namespace ebbtide
