#include "tests/cudasim/calls.h"

#include <charconv>

namespace cudasim {
namespace {

// Cuts `text` at the first `separator`.
std::string_view Cut(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view head = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return head;
}

template <typename T>
bool Read(std::string_view text, T* number) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// Which device is current is no question to it, and PyTorch asks it at every
// turn, also where it may not throw.
bool IsWork(std::string_view function) { return function != "cudaGetDevice"; }

}  // namespace

int Calls::Enter(std::string_view function) {
  auto count = counts_.find(function);
  if (count == counts_.end()) count = counts_.emplace(function, 0).first;
  ++count->second;
  is_work_ = IsWork(function);
  hit_ = is_work_ && ++total_ == failing_;
  return hit_ ? failing_error_ : ErrorOf(function);
}

int Calls::ErrorOf(std::string_view function) {
  if (faults_.empty()) return 0;
  const auto found = faults_.find(function);
  if (found == faults_.end()) return 0;
  Fault& fault = found->second;
  if (fault.after > 0) {
    --fault.after;
    return 0;
  }
  if (fault.times == 0) return 0;
  if (fault.times > 0) --fault.times;
  return fault.error;
}

void Calls::Fail(std::string_view function, int64_t after, int64_t times,
                 int error) {
  faults_.insert_or_assign(std::string(function), Fault{after, times, error});
}

void Calls::FailOne(int64_t after, int error) {
  failing_ = total_ + after + 1;
  failing_error_ = error;
}

bool Calls::FailAll(std::string_view text) {
  while (!text.empty()) {
    std::string_view item = Cut(&text, ',');
    const std::string_view function = Cut(&item, ':');
    const std::string_view after = Cut(&item, ':');
    const std::string_view times = Cut(&item, ':');
    Fault fault{};
    if (function.empty() || !Read(after, &fault.after) ||
        !Read(times, &fault.times) || !Read(item, &fault.error)) {
      return false;
    }
    Fail(function, fault.after, fault.times, fault.error);
  }
  return true;
}

uint64_t Calls::count(std::string_view function) const {
  const auto count = counts_.find(function);
  return count == counts_.end() ? 0 : count->second;
}

}  // namespace cudasim
