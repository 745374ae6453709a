// `PageAges` is how far the work is that used the pages of an arena: a page
// whose work is over can be unmapped at once, and of the others the wait is
// shortest for the one that was freed first.
//
// Frees are numbered. While pages move, a stream is marked after every
// kFreesPerMark of them; when a mark is over, so is the work before the frees
// that it follows. A page has the number of its last free and the stream whose
// work used it; where that may be several streams', only a wait for all of them
// shows that it is over.
//
// Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_AGES_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_AGES_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "allocator/arena/page_map.h"
#include "allocator/arena/page_system.h"
#include "allocator/arena/page_window.h"

namespace ebbtide {

class PageAges {
 public:
  static constexpr int kFreesPerMark = 64;

  // `order` outlives this.
  explicit PageAges(StreamOrder* order) : order_(*order) {}

  // A block at these pages is freed, and work of the stream that is queued so
  // far uses it; with `is_shared`, that of any stream.
  void OnFree(PageRange pages, int stream, bool is_shared);

  // Asks which marks are over.
  void Update();
  // 0 where the work that used the page is known to be over by the last Update
  // or WaitFor; otherwise the larger the later the page was freed.
  int64_t AgeOf(int64_t page) const;
  // At most `count` of the pages: first those whose work is over, and among
  // equals those that touch the fewest others. Asks which marks are over.
  std::vector<int64_t> Oldest(int64_t count, std::vector<FreePage> pages);
  // Blocks until the work that used the pages is over. False on failure.
  bool WaitFor(absl::Span<const int64_t> pages);
  // Blocks until all work that is queued on any stream is over. False on
  // failure.
  bool WaitForAll();

 private:
  struct Stamp {
    int64_t number = 0;
    int stream = 0;  // kShared: of several
  };
  static constexpr int kShared = -1;
  struct Numbered {
    int64_t number = 0;
    StreamMark mark;
  };
  struct Stream {
    int64_t over = 0;  // highest number whose work is over
    int frees = 0;     // since the last mark
    std::deque<Numbered> marks;
  };

  Stream& At(int stream);
  bool IsOver(const Stamp& stamp) const;
  bool WaitUntil(int stream, int64_t number);
  bool Record(int stream);
  static void NoteOver(int64_t number, Stream* stream);

  StreamOrder& order_;
  int64_t number_ = 0;  // number of the last free
  int64_t all_over_ = 0;
  int64_t last_wait_ = -1;     // number at the last WaitFor; -1: there was none
  std::vector<Stamp> stamps_;  // by page
  std::vector<Stream> streams_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PAGE_AGES_H_
