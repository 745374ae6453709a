#include "hooks/gaps.h"

#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "hooks/device.h"

namespace ebbtide {
namespace {

// The workspaces of recurrent layers have one gap per row of each time step.
constexpr size_t kMostGaps = 1 << 18;

const uint8_t* Data(const c10::Storage& bytes) {
  return static_cast<const uint8_t*>(bytes.data());
}

// Calls visit(begin, end) for the stretches between gaps until it is false.
template <typename Visit>
bool ForEachStretch(const Gaps* gaps, size_t size, Visit visit) {
  size_t begin = 0;
  if (gaps != nullptr) {
    for (const Gap& gap : *gaps) {
      if (!visit(begin, gap.begin)) return false;
      begin = gap.end;
    }
  }
  return visit(begin, size);
}

}  // namespace

GapSearch::GapSearch(const c10::Storage& original, const c10::Storage& run,
                     uint8_t fill)
    : original_(Device::Get().OnHost(original)),
      candidates_((original.nbytes() + 7) / 8) {
  differs_ = original.nbytes() != run.nbytes();
  if (differs_) return;
  const c10::Storage here = Device::Get().OnHost(run);
  for (size_t i = 0; i < here.nbytes() && !differs_; ++i) {
    if (Data(here)[i] == fill) {
      candidates_[i / 8] |= 1 << (i % 8);
    } else {
      differs_ = Data(here)[i] != Data(original_)[i];
    }
  }
}

std::optional<Gaps> GapSearch::Find(const c10::Storage& other_run,
                                    uint8_t other_fill) const {
  if (differs_ || other_run.nbytes() != original_.nbytes()) return std::nullopt;
  const c10::Storage here = Device::Get().OnHost(other_run);
  Gaps gaps;
  for (size_t i = 0; i < original_.nbytes(); ++i) {
    const uint8_t other = Data(here)[i];
    if (IsCandidate(i) && other == other_fill) {
      if (!gaps.empty() && gaps.back().end == i) {
        ++gaps.back().end;
      } else if (gaps.size() < kMostGaps) {
        gaps.push_back({i, i + 1});
      } else {
        return std::nullopt;
      }
    } else if (other != Data(original_)[i]) {
      return std::nullopt;
    }
  }
  return gaps;
}

size_t DigestOutside(const Gaps* gaps, const c10::Storage& bytes) {
  const c10::Storage here = Device::Get().OnHost(bytes);
  size_t digest = 0;
  ForEachStretch(gaps, here.nbytes(), [&](size_t begin, size_t end) {
    digest = absl::HashOf(
        digest, absl::string_view(static_cast<const char*>(here.data()) + begin,
                                  end - begin));
    return true;
  });
  return digest;
}

}  // namespace ebbtide
