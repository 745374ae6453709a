#include "tests/cudasim/callers.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace cudasim {
namespace {

struct Place {
  std::string_view library;
  uintptr_t offset;
};

Place PlaceOf(void* code) {
  const auto address = reinterpret_cast<uintptr_t>(code);
  Dl_info info;
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) {
    return {"?", address};
  }
  std::string_view path = info.dli_fname;
  path.remove_prefix(path.rfind('/') + 1);
  return {path, address - reinterpret_cast<uintptr_t>(info.dli_fbase)};
}

// Under the name that they stand in for, or their own.
bool IsStandIn(std::string_view library) {
  for (const std::string_view name :
       {"libcudart.so", "libcublas.so", "libcublasLt.so", "libcuda.so",
        "cudasim_"}) {
    if (library.substr(0, name.size()) == name) return true;
  }
  return false;
}

}  // namespace

std::string Callers(int most) {
  constexpr int kDepth = 96;
  std::array<void*, kDepth> stack;
  const int depth = backtrace(stack.data(), kDepth);
  std::string text;
  for (int i = 0; i < depth && most > 0; ++i) {
    const Place place = PlaceOf(stack[i]);
    if (text.empty() && IsStandIn(place.library)) continue;
    std::array<char, 2 * sizeof(uintptr_t) + 1> digits;
    snprintf(digits.data(), digits.size(), "%zx", size_t{place.offset});
    --most;
    if (!text.empty()) text += ' ';
    text.append(place.library).append("+").append(digits.data());
  }
  return text;
}

}  // namespace cudasim
