#include "allocator/arena/page_ages.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ebbtide {
namespace {

// Streams are marked until so many frees after pages were last wanted.
constexpr int64_t kFreesAfterWait = 1024;
// A stream keeps so many marks. Older ones are dropped, because later ones are
// over later.
constexpr size_t kMostMarks = 64;

}  // namespace

PageAges::Stream& PageAges::At(int stream) {
  if (stream >= static_cast<int>(streams_.size())) streams_.resize(stream + 1);
  return streams_[stream];
}

void PageAges::OnFree(PageRange pages, int stream, bool is_shared) {
  ++number_;
  if (pages.last > static_cast<int64_t>(stamps_.size())) {
    stamps_.resize(pages.last);
  }
  for (int64_t page = pages.first; page < pages.last; ++page) {
    Stamp& stamp = stamps_[page];
    const bool has_others = stamp.stream != stream && !IsOver(stamp);
    stamp = {number_, is_shared || has_others ? kShared : stream};
  }
  Stream& own = At(stream);
  const bool is_moving =
      last_wait_ >= 0 && number_ - last_wait_ < kFreesAfterWait;
  if (is_moving && ++own.frees >= kFreesPerMark) Record(stream);
}

bool PageAges::Record(int stream) {
  auto mark = order_.Mark(stream);
  if (!mark.ok()) return false;
  Stream& own = At(stream);
  own.frees = 0;
  own.marks.push_back({number_, *std::move(mark)});
  if (own.marks.size() > kMostMarks) own.marks.pop_front();
  return true;
}

void PageAges::NoteOver(int64_t number, Stream* stream) {
  stream->over = std::max(stream->over, number);
  while (!stream->marks.empty() &&
         stream->marks.front().number <= stream->over) {
    stream->marks.pop_front();
  }
}

void PageAges::Update() {
  for (Stream& stream : streams_) {
    while (!stream.marks.empty() && order_.IsOver(stream.marks.front().mark)) {
      NoteOver(stream.marks.front().number, &stream);
    }
  }
}

bool PageAges::IsOver(const Stamp& stamp) const {
  if (stamp.number <= all_over_) return true;
  if (stamp.stream == kShared) return false;
  return stamp.stream < static_cast<int>(streams_.size()) &&
         stamp.number <= streams_[stamp.stream].over;
}

int64_t PageAges::AgeOf(int64_t page) const {
  if (page >= static_cast<int64_t>(stamps_.size())) return 0;
  const Stamp& stamp = stamps_[page];
  if (IsOver(stamp)) return 0;
  return stamp.stream == kShared ? std::numeric_limits<int64_t>::max()
                                 : stamp.number;
}

std::vector<int64_t> PageAges::Oldest(int64_t count,
                                      std::vector<FreePage> pages) {
  Update();
  std::stable_sort(pages.begin(), pages.end(),
                   [this](const FreePage& a, const FreePage& b) {
                     return std::pair(AgeOf(a.index), a.neighbours) <
                            std::pair(AgeOf(b.index), b.neighbours);
                   });
  if (static_cast<int64_t>(pages.size()) > count) pages.resize(count);
  std::vector<int64_t> oldest;
  for (const FreePage& page : pages) oldest.push_back(page.index);
  return oldest;
}

bool PageAges::WaitFor(absl::Span<const int64_t> pages) {
  last_wait_ = number_;
  std::vector<int64_t> wanted(streams_.size(), 0);
  for (const int64_t page : pages) {
    if (AgeOf(page) == 0) continue;
    const Stamp& stamp = stamps_[page];
    if (stamp.stream == kShared) return WaitForAll();
    wanted[stamp.stream] = std::max(wanted[stamp.stream], stamp.number);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] > 0 && !WaitUntil(static_cast<int>(i), wanted[i])) {
      return false;
    }
  }
  return true;
}

bool PageAges::WaitUntil(int stream, int64_t number) {
  Stream& own = At(stream);
  if (own.marks.empty() || own.marks.back().number < number) {
    if (!Record(stream)) return false;
  }
  const auto first = std::find_if(
      own.marks.begin(), own.marks.end(),
      [number](const Numbered& mark) { return mark.number >= number; });
  const Numbered behind = *first;
  if (!order_.Wait(behind.mark).ok()) return false;
  NoteOver(behind.number, &own);
  return true;
}

bool PageAges::WaitForAll() {
  last_wait_ = number_;
  for (int stream = 0; stream < order_.streams(); ++stream) {
    // Not behind an older mark of that number: frees may have gone unnumbered.
    if (!Record(stream) || !order_.Wait(At(stream).marks.back().mark).ok()) {
      return false;
    }
    NoteOver(number_, &At(stream));
  }
  all_over_ = number_;
  return true;
}

}  // namespace ebbtide
