#include "profiler/snapshot.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "profiler/block_books.h"
#include "profiler/pickle_writer.h"
#include "profiler/thinned_curve.h"

namespace ebbtide {
namespace {

constexpr char kUnknown[] = "unknown";
// A reader holds what is added to a list at once.
constexpr int kPart = 1000;

using LastCause = absl::flat_hash_map<int64_t, uint8_t>;  // by number

// First pass: the last cause of each block, and its shape.
class LastCauses final : public TraceVisitor {
 public:
  void OnBlock(const BlockEvent& event) override {
    if (event.what == BlockEvent::What::kAllocate) {
      causes[event.block] =
          static_cast<uint8_t>(CauseOf(event.kind, event.name));
    } else if (event.what == BlockEvent::What::kRetag) {
      causes[event.block] = static_cast<uint8_t>(event.kind);
    }
  }
  void OnSample(const CurveSample& /*sample*/) override { is_old = true; }

  LastCause causes;
  bool is_old = false;
};

struct Entry {
  const char* action;
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t time = 0;
  std::string name;
  const char* category = kUnknown;
};

// Amounts that are known as sums, represented by blocks on top of each other.
class Pile {
 public:
  // The blocks to be freed, and the one to be allocated or no bytes, so that
  // the sum is `target`.
  template <typename Free, typename Allocate>
  void Become(int64_t target, Free free, Allocate allocate) {
    while (sum_ > target) {
      const auto [address, bytes] = blocks_.back();
      blocks_.pop_back();
      sum_ -= bytes;
      free(address, bytes);
    }
    if (sum_ == target) return;
    const int64_t bytes = target - sum_;
    blocks_.emplace_back(allocate(bytes), bytes);
    sum_ = target;
  }

 private:
  int64_t sum_ = 0;
  std::vector<std::pair<int64_t, int64_t>> blocks_;
};

class SnapshotWriter final : public TraceVisitor {
 public:
  SnapshotWriter(const LastCause& causes, std::ostream& out)
      : causes_(causes), pickle_(out) {}

  void OnStart(const TraceStart& start) override;
  void OnName(std::string name) override { names_.push_back(std::move(name)); }
  void OnBlock(const BlockEvent& event) override;
  void OnTier(const TierSample& sample) override;
  void Finish();

 private:
  static constexpr int64_t kAlignment = 512;

  int64_t NextAddress(int64_t bytes) {
    const int64_t address = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  }
  void Put(const Entry& entry);
  void PutNext(const Entry& entry) {
    if (++entries_ % kPart == 0) pickle_.NextPart();
    Put(entry);
  }
  void Free(int64_t number, const BlockBooks::Block& block, int64_t time);
  void PutRest(int64_t time);
  void PutSegment();

  const LastCause& causes_;
  PickleWriter pickle_;
  TraceStart start_;
  std::vector<std::string> names_;
  BlockBooks books_;
  int64_t next_ = kAlignment;
  int64_t entries_ = 0;
  absl::btree_map<int64_t, int64_t> addresses_;  // addresses of live blocks
  absl::btree_map<int64_t, std::pair<int64_t, std::string>> alive_;  // at them
  Pile rest_;
  Pile host_;
  Pile disk_;
  std::vector<Entry> tiers_;
};

void SnapshotWriter::Put(const Entry& entry) {
  pickle_.BeginDict();
  pickle_.Text("action");
  pickle_.Text(entry.action);
  pickle_.Text("addr");
  pickle_.Int(entry.address);
  pickle_.Text("size");
  pickle_.Int(entry.bytes);
  pickle_.Text("stream");
  pickle_.Int(0);
  pickle_.Text("time_us");
  pickle_.Int((start_.unix_nanos + (entry.time - start_.time)) / 1000);
  pickle_.Text("nanos");
  pickle_.Int(entry.time);
  pickle_.Text("category");
  pickle_.Text(entry.category);
  pickle_.Text("frames");
  pickle_.Frames(entry.name);
  pickle_.EndDict();
}

void SnapshotWriter::OnStart(const TraceStart& start) {
  start_ = start;
  pickle_.BeginDict();
  pickle_.Text("device_traces");
  pickle_.BeginList();
  pickle_.BeginList();
  for (const char* action : {"alloc", "free_completed"}) {
    PutNext({action, NextAddress(0), 1, start.time, "the trace begins"});
  }
  next_ += kAlignment;
}

void SnapshotWriter::Free(int64_t number, const BlockBooks::Block& block,
                          int64_t time) {
  const auto address = addresses_.find(number);
  for (const char* action : {"free_requested", "free_completed"}) {
    PutNext({action, address->second, Count(block.bytes), time,
             block.name < 0 ? "" : names_[block.name],
             CauseName(causes_.at(number))});
  }
  alive_.erase(address->second);
  addresses_.erase(address);
}

void SnapshotWriter::PutRest(int64_t time) {
  const std::string name = "small blocks, and what was there before";
  rest_.Become(
      std::max<int64_t>(0, Count(books_.rest())),
      [&](int64_t address, int64_t bytes) {
        PutNext({"free_completed", address, bytes, time, name});
        alive_.erase(address);
      },
      [&](int64_t bytes) {
        const int64_t address = NextAddress(bytes);
        PutNext({"alloc", address, bytes, time, name});
        alive_[address] = {bytes, name};
        return address;
      });
}

void SnapshotWriter::OnBlock(const BlockEvent& event) {
  using What = BlockEvent::What;
  if (event.what == What::kAllocate) {
    const int64_t bytes = Count(event.bytes);
    const int64_t address = NextAddress(std::max<int64_t>(1, bytes));
    const std::string name = event.name < 0 ? "" : names_[event.name];
    PutNext({"alloc", address, bytes, event.time, name,
             CauseName(causes_.at(event.block))});
    addresses_[event.block] = address;
    alive_[address] = {bytes, name};
  } else if (event.what == What::kFree) {
    const auto* const block = books_.Find(event.block);
    if (block != nullptr) Free(event.block, *block, event.time);
  } else if (event.what == What::kForget) {
    for (const auto& [number, block] : books_.alive()) {
      Free(number, block, event.time);
    }
  }
  books_.Apply(event);
  PutRest(event.time);
}

void SnapshotWriter::OnTier(const TierSample& sample) {
  const auto put = [&](Pile& pile, Bytes target, const char* name) {
    pile.Become(
        std::max<int64_t>(0, Count(target)),
        [&](int64_t address, int64_t bytes) {
          tiers_.push_back(
              {"free_completed", address, bytes, sample.time, name, name});
        },
        [&](int64_t bytes) {
          const int64_t address = NextAddress(bytes);
          tiers_.push_back({"alloc", address, bytes, sample.time, name, name});
          return address;
        });
  };
  put(host_, sample.host, "in host memory");
  put(disk_, sample.disk, "on disk");
}

// One that spans all addresses: what is alive at the end, and gaps.
void SnapshotWriter::PutSegment() {
  const auto put = [this](int64_t bytes, const char* state,
                          absl::string_view name) {
    if (bytes == 0) return;
    pickle_.BeginDict();
    pickle_.Text("size");
    pickle_.Int(bytes);
    pickle_.Text("requested_size");
    pickle_.Int(bytes);
    pickle_.Text("state");
    pickle_.Text(state);
    pickle_.Text("frames");
    pickle_.Frames(name);
    pickle_.EndDict();
  };
  pickle_.BeginDict();
  for (const auto& [key, value] : {std::pair("device", int64_t{0}),
                                   {"address", kAlignment},
                                   {"stream", int64_t{0}},
                                   {"total_size", next_ - kAlignment}}) {
    pickle_.Text(key);
    pickle_.Int(value);
  }
  pickle_.Text("segment_type");
  pickle_.Text("large");
  pickle_.Text("blocks");
  pickle_.BeginList();
  int64_t at = kAlignment;
  for (const auto& [address, block] : alive_) {
    put(address - at, "inactive", "");
    put(block.first, "active_allocated", block.second);
    at = address + block.first;
  }
  put(next_ - at, "inactive", "");
  pickle_.EndList();
  pickle_.EndDict();
}

void SnapshotWriter::Finish() {
  pickle_.EndList();
  pickle_.BeginList();
  for (const Entry& entry : tiers_) PutNext(entry);
  pickle_.EndList();
  pickle_.EndList();
  pickle_.Text("segments");
  pickle_.BeginList();
  PutSegment();
  pickle_.EndList();
  pickle_.EndDict();
  pickle_.End();
}

}  // namespace

absl::Status WriteSnapshot(const TraceSource& source, std::ostream& out) {
  LastCauses last;
  if (const auto end = source(last); !end.ok()) return end.status();
  if (last.is_old) {
    return absl::InvalidArgumentError(
        "a trace of version 1 tells of no blocks; expected a later one");
  }
  SnapshotWriter writer(last.causes, out);
  if (const auto end = source(writer); !end.ok()) return end.status();
  writer.Finish();
  return absl::OkStatus();
}

}  // namespace ebbtide
