#include "tests/cudasim/cupti_delivery.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace cudasim {
namespace {

class Delivery {
 public:
  Delivery(const CuptiRequested& first, const CuptiSettings& settings,
           const CuptiCallbacks& callbacks, std::atomic<size_t>* dropped,
           std::mt19937_64* random)
      : next_buffer_(first),
        settings_(settings),
        callbacks_(callbacks),
        dropped_(*dropped),
        random_(*random) {}

  CuptiDelivered Run(std::vector<CuptiRecord> records) {
    Drop(&records);
    if (settings_.shuffle_records != 0) {
      std::shuffle(records.begin(), records.end(), random_);
    }
    std::vector<CuptiBuffer> filled;
    for (size_t next = 0; next < records.size();) {
      CuptiBuffer buffer;
      const size_t end = Fill(records, next, &buffer);
      if (end == next) {  // there is none, or it is too small
        NoteDropped(records.size() - next);
        if (buffer.begin != nullptr) filled.push_back(buffer);
        break;
      }
      MayCut(records[end - 1], &buffer);
      next = end;
      filled.push_back(buffer);
      // Late records were in buffers before: all of them are out until then.
      if (settings_.shuffle_buffers == 0 && settings_.late_us == 0) {
        Give(&filled);
      }
    }
    if (next_buffer_.buffer.begin != nullptr) {
      filled.push_back(next_buffer_.buffer);  // nothing was left for it
    }
    if (settings_.shuffle_buffers != 0) {
      std::shuffle(filled.begin(), filled.end(), random_);
    }
    Give(&filled);
    return std::move(done_);
  }

 private:
  bool Toss(int64_t of_thousand) {
    return static_cast<int64_t>(random_() % 1000) < of_thousand;
  }

  void NoteDropped(size_t records) {
    done_.dropped += records;
    dropped_ += records;
  }

  void Drop(std::vector<CuptiRecord>* records) {
    if (settings_.drop_records == 0) return;
    NoteDropped(std::erase_if(*records, [this](const CuptiRecord&) {
      return Toss(settings_.drop_records);
    }));
  }

  // Returns the first record that did not go into the buffer.
  size_t Fill(const std::vector<CuptiRecord>& records, size_t next,
              CuptiBuffer* buffer) {
    CuptiRequested requested = std::exchange(next_buffer_, {});
    if (requested.buffer.begin == nullptr) {
      requested = RequestCuptiBuffer(callbacks_);
    }
    *buffer = requested.buffer;
    if (buffer->begin == nullptr) {
      ++done_.declined;
      return next;
    }
    ++done_.buffers;
    size_t limit = requested.records == 0 ? records.size() : requested.records;
    if (settings_.records_in_buffer > 0) {
      limit = std::min<size_t>(limit, settings_.records_in_buffer);
    }
    const auto version = static_cast<uint32_t>(settings_.version);
    for (; next < records.size() && limit > 0; ++next, --limit) {
      const size_t size = CuptiSizeOf(records[next].kind, version);
      if (buffer->valid + size > buffer->size) break;
      WriteCuptiRecord(
          records[next], version,
          reinterpret_cast<std::byte*>(buffer->begin + buffer->valid));
      buffer->valid += size;
    }
    return next;
  }

  void MayCut(const CuptiRecord& last, CuptiBuffer* buffer) {
    if (!Toss(settings_.cut_buffers)) return;
    const size_t size =
        CuptiSizeOf(last.kind, static_cast<uint32_t>(settings_.version));
    buffer->valid -= 1 + random_() % (size - 1);
    ++done_.cut;
  }

  void Give(std::vector<CuptiBuffer>* filled) {
    for (const CuptiBuffer& buffer : *filled) {
      if (Toss(settings_.hold_buffers)) {
        done_.held.push_back(buffer);
        continue;
      }
      callbacks_.complete(nullptr, 0, buffer.begin, buffer.size, buffer.valid);
    }
    filled->clear();
  }

  CuptiRequested next_buffer_;
  const CuptiSettings& settings_;
  const CuptiCallbacks& callbacks_;
  std::atomic<size_t>& dropped_;
  std::mt19937_64& random_;
  CuptiDelivered done_;
};

}  // namespace

CuptiRequested RequestCuptiBuffer(const CuptiCallbacks& callbacks) {
  CuptiRequested requested;
  callbacks.request(&requested.buffer.begin, &requested.buffer.size,
                    &requested.records);
  if (reinterpret_cast<uintptr_t>(requested.buffer.begin) % 8 != 0) abort();
  return requested;
}

CuptiDelivered DeliverCupti(std::vector<CuptiRecord> records,
                            const CuptiRequested& first,
                            const CuptiSettings& settings,
                            const CuptiCallbacks& callbacks,
                            std::atomic<size_t>* dropped,
                            std::mt19937_64* random) {
  return Delivery(first, settings, callbacks, dropped, random)
      .Run(std::move(records));
}

}  // namespace cudasim
