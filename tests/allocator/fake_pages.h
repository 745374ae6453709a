// Pages and streams of no device, and a checker of the use of bytes that is
// independent of plans and arenas: live blocks are intervals of addresses and
// of the bytes of pages that are mapped there, pages a map by address, and
// streams have vector clocks.
#ifndef EBBTIDE_TESTS_ALLOCATOR_FAKE_PAGES_H_
#define EBBTIDE_TESTS_ALLOCATOR_FAKE_PAGES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/arena/page_system.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr int64_t kFakePage = 4096;

// How far each stream's work is known to be over.
using StreamClock = std::vector<int64_t>;

class FakePages final : public PageSystem, public StreamOrder {
 public:
  explicit FakePages(int streams = 1)
      : known_(streams + 1, StreamClock(streams + 1, 0)),
        done_(streams + 1, 0) {}

  // Pages that may be mapped.
  int64_t limit = int64_t{1} << 40;
  // So many more calls succeed before one fails.
  int64_t calls_until_failure = int64_t{1} << 40;
  bool may_mark = true;

  // PageSystem.
  Bytes page() const override { return Bytes{kFakePage}; }
  absl::StatusOr<char*> Reserve(Bytes) override {
    if (Fails()) return Failure();
    return Base();
  }
  int64_t Room() const override {
    return std::max<int64_t>(0, limit - mapped());
  }
  absl::StatusOr<uint64_t> Create() override {
    if (Fails()) return Failure();
    ++created_;
    return next_++;
  }
  void Release(uint64_t) override { --created_; }
  absl::Status Map(char* at, absl::Span<const uint64_t> pages) override {
    if (Fails()) return Failure();
    for (const uint64_t page : pages) {
      if (addresses_[page] > 0) Complain("a page is mapped twice");
      MapAt(at, page);
      at += kFakePage;
    }
    if (mapped() > limit) Complain("more is mapped than may be");
    return absl::OkStatus();
  }
  absl::Status MapAgain(char* at, absl::Span<const uint64_t> pages) override {
    if (Fails()) return Failure();
    for (const uint64_t page : pages) {
      if (addresses_[page] == 0) Complain("an alias is of no mapped page");
      MapAt(at, page);
      at += kFakePage;
    }
    return absl::OkStatus();
  }
  absl::Status UnmapAlias(char* at, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) {
      const auto page = mapped_.find(at + i * kFakePage);
      if (page != mapped_.end() && addresses_[page->second] < 2) {
        Complain("the last address of a page is unmapped as an alias");
      }
    }
    return Unmap(at, count);
  }
  absl::Status Unmap(char* at, int64_t count) override {
    if (Fails()) return Failure();
    char* const end = at + count * kFakePage;
    if (MeetsLive(at, end)) Complain("a page is unmapped below a live block");
    for (const Use& past : past_) {
      const bool meets = past.begin < end && at < past.end;
      if (meets && done_[past.stream] < past.until) {
        Complain("a page is unmapped before the work is done that uses it");
      }
    }
    for (; at < end; at += kFakePage) {
      const auto page = mapped_.find(at);
      if (page == mapped_.end()) {
        Complain("what is unmapped was not mapped");
        continue;
      }
      if (--addresses_[page->second] == 0) addresses_.erase(page->second);
      mapped_.erase(page);
    }
    return absl::OkStatus();
  }

  // StreamOrder.
  int streams() const override { return static_cast<int>(known_.size()) - 1; }
  absl::StatusOr<StreamMark> Mark(int stream) override {
    if (!may_mark || Fails()) return Failure();
    return std::make_shared<const StreamClock>(known_[stream]);
  }
  absl::Status RunBehind(const StreamMark& mark, int stream) override {
    if (Fails()) return Failure();
    Join(&known_[stream], ClockOf(mark));
    return absl::OkStatus();
  }
  int64_t questions() const { return questions_; }
  // Every second one is.
  bool IsOver(const StreamMark& mark) override {
    if (++questions_ % 2 == 0) return false;
    NoteDone(mark);
    return true;
  }
  absl::Status Wait(const StreamMark& mark) override {
    if (Fails()) return Failure();
    NoteDone(mark);
    return absl::OkStatus();
  }

  // The program has a block, and queues work of the stream with it.
  void Take(void* block, int64_t size, int stream) {
    auto* const begin = static_cast<char*>(block);
    char* const end = begin + size;
    if ((begin - Base()) % kArenaGrain != 0) Complain("a block is not aligned");
    for (char* page = Base() + (begin - Base()) / kFakePage * kFakePage;
         page < end; page += kFakePage) {
      if (!mapped_.contains(page)) Complain("a block has a page too few");
    }
    if (MeetsLive(begin, end)) Complain("live bytes overlap");
    const Pieces pieces = PiecesOf(begin, end);
    for (const auto& [other, live] : live_) {
      if (Meet(live.pieces, pieces)) Complain("bytes of pages overlap");
    }
    for (const Use& past : past_) {
      if (Meet(past.pieces, pieces) &&
          known_[stream][past.stream] < past.until) {
        Complain("bytes are used before another stream is done with them");
      }
    }
    live_[begin] = {begin, end, stream, 0, pieces};
  }
  // A copy of the block begins on a stream that has no number, behind what its
  // own has queued. Returns the end of it.
  StreamMark Copy(const void* begin) {
    const int outside = streams();
    const Use& block = live_.at(begin);
    StreamClock& clock = known_[outside];
    Join(&clock, known_[block.stream]);
    past_.push_back(block);
    past_.back().stream = outside;
    past_.back().until = ++clock[outside];
    return std::make_shared<const StreamClock>(clock);
  }
  // It frees the block; `others`: streams that queued work with it, too.
  void Give(const void* begin, absl::Span<const int> others) {
    Use block = live_.at(begin);
    live_.erase(begin);
    block.until = ++known_[block.stream][block.stream];
    past_.push_back(block);
    for (const int other : others) {
      past_.push_back(block);
      past_.back().stream = other;
      past_.back().until = ++known_[other][other];
    }
  }
  // The host waits for all work that is queued.
  void WaitForAll() {
    for (const StreamClock& clock : known_) Join(&done_, clock);
    for (StreamClock& clock : known_) Join(&clock, done_);
    past_.clear();
  }
  // Pages that no live block touches might be mapped anywhere.
  int64_t PagesOfLive() const {
    std::map<int64_t, bool> pages;
    for (const auto& [begin, live] : live_) {
      for (int64_t i = (live.begin - Base()) / kFakePage;
           i * kFakePage < live.end - Base(); ++i) {
        pages[i] = true;
      }
    }
    return static_cast<int64_t>(pages.size());
  }
  // True if a request of so many bytes fits into the end of one page, whole
  // pages and the beginning of another, none of which has live bytes there.
  bool FitsIntoPartsOfPages(int64_t size) const {
    size = (size + kArenaGrain - 1) / kArenaGrain * kArenaGrain;
    // By page: where live bytes begin and end.
    std::map<int64_t, std::pair<int64_t, int64_t>> used;
    for (const auto& [block, live] : live_) {
      for (const auto& [begin, end] : live.pieces) {
        const int64_t page = begin / kFakePage;
        auto& [first, last] =
            used.try_emplace(page, kFakePage, 0).first->second;
        first = std::min(first, begin - page * kFakePage);
        last = std::max(last, end - page * kFakePage);
      }
    }
    const int64_t whole = limit - std::ssize(used);
    std::vector<int64_t> heads = {0};
    std::vector<int64_t> tails = {0};
    for (const auto& [page, live] : used) {
      const auto [first, last] = live;
      tails.push_back(first);
      heads.push_back(kFakePage -
                      (last + kArenaGrain - 1) / kArenaGrain * kArenaGrain);
    }
    for (const int64_t head : heads) {
      for (const int64_t tail : tails) {
        if (size <= head + whole * kFakePage) return true;
        const int64_t rest = (size - head) % kFakePage;
        if ((size - head) / kFakePage <= whole && rest <= tail) return true;
      }
    }
    return false;
  }

  // Bytes of live blocks, each rounded up to whole kArenaGrain.
  int64_t live_bytes() const {
    int64_t bytes = 0;
    for (const auto& [begin, live] : live_) {
      bytes +=
          (live.end - live.begin + kArenaGrain - 1) / kArenaGrain * kArenaGrain;
    }
    return bytes;
  }
  int64_t mapped() const { return std::ssize(addresses_); }
  // Addresses at which pages are mapped that are mapped elsewhere, too.
  int64_t aliases() const { return std::ssize(mapped_) - mapped(); }
  int64_t created() const { return created_; }
  int64_t failures() const { return failures_; }
  const std::string& problem() const { return problem_; }
  static char* Base() { return reinterpret_cast<char*>(int64_t{1} << 40); }

 private:
  // Half-open, in the bytes of all pages ever.
  using Pieces = std::vector<std::pair<int64_t, int64_t>>;
  struct Use {
    char* begin;
    char* end;
    int stream;
    int64_t until;
    Pieces pieces;
  };

  void MapAt(char* at, uint64_t page) {
    if (!mapped_.emplace(at, page).second)
      Complain("an address is mapped twice");
    ++addresses_[page];
  }
  Pieces PiecesOf(char* begin, char* end) const {
    Pieces pieces;
    for (char* at = begin; at < end;) {
      const int64_t offset = (at - Base()) % kFakePage;
      char* const next = std::min(end, at - offset + kFakePage);
      const auto page = mapped_.find(at - offset);
      if (page != mapped_.end()) {
        const auto first =
            static_cast<int64_t>(page->second) * kFakePage + offset;
        pieces.emplace_back(first, first + (next - at));
      }
      at = next;
    }
    return pieces;
  }
  static bool Meet(const Pieces& a, const Pieces& b) {
    for (const auto& [begin, end] : a) {
      for (const auto& [other_begin, other_end] : b) {
        if (begin < other_end && other_begin < end) return true;
      }
    }
    return false;
  }

  // Live blocks are apart, so the last that begins before `end` decides.
  bool MeetsLive(const char* begin, const char* end) const {
    const auto next = live_.lower_bound(end);
    return next != live_.begin() && std::prev(next)->second.end > begin;
  }
  static void Join(StreamClock* clock, const StreamClock& other) {
    for (size_t s = 0; s < clock->size(); ++s) {
      (*clock)[s] = std::max((*clock)[s], other[s]);
    }
  }
  static const StreamClock& ClockOf(const StreamMark& mark) {
    return *static_cast<const StreamClock*>(mark.get());
  }
  // Whatever is queued from now on runs behind it.
  void NoteDone(const StreamMark& mark) {
    Join(&done_, ClockOf(mark));
    for (StreamClock& clock : known_) Join(&clock, ClockOf(mark));
  }
  void Complain(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  bool Fails() {
    if (calls_until_failure-- != 0) return false;
    ++failures_;
    return true;
  }
  static absl::Status Failure() {
    return absl::UnavailableError("it was to fail");
  }

  std::vector<StreamClock> known_;
  StreamClock done_;  // by the host
  std::map<char*, uint64_t> mapped_;
  std::map<uint64_t, int> addresses_;  // addresses of each page that is mapped
  std::map<const void*, Use> live_;    // by begin
  std::vector<Use> past_;
  uint64_t next_ = 1;
  int64_t created_ = 0;
  int64_t questions_ = 0;
  int64_t failures_ = 0;
  std::string problem_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_FAKE_PAGES_H_
