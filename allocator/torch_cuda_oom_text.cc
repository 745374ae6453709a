#include "allocator/torch_cuda_oom_text.h"

#include <cstdint>

namespace ebbtide {
namespace {

// Replaces the size before `words`, as "1.50 GiB", where they are there.
void ReplaceSize(const char* words, Bytes size, std::string* text) {
  const size_t end = text->find(words);
  if (end == std::string::npos) return;
  const size_t unit = text->rfind(' ', end - 1);
  if (unit == std::string::npos || unit == 0) return;
  const size_t begin = text->rfind(' ', unit - 1) + 1;
  text->replace(begin, end - begin,
                c10::CachingDeviceAllocator::format_size(
                    static_cast<uint64_t>(Count(size))));
}

}  // namespace

std::string WithNumbers(std::string text,
                        const c10::CachingDeviceAllocator::DeviceStats& stats,
                        Bytes limit) {
  const int64_t allocated = stats.allocated_bytes[0].current;
  ReplaceSize(" allowed;", limit, &text);
  ReplaceSize(" is allocated by PyTorch", Bytes{allocated}, &text);
  ReplaceSize(" is reserved by PyTorch but unallocated",
              Bytes{stats.reserved_bytes[0].current - allocated}, &text);
  return text;
}

}  // namespace ebbtide
