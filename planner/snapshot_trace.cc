#include "planner/snapshot_trace.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/pickle.h"

namespace ebbtide {
namespace {

using Value = Pickle::Value;

class SnapshotReader {
 public:
  explicit SnapshotReader(Pickle pickle) : pickle_(std::move(pickle)) {}

  absl::StatusOr<BufferTrace> Read() {
    const Value& root = pickle_.root();
    const auto* devices = Get<Pickle::List>(root, "device_traces");
    const auto* segments = Get<Pickle::List>(root, "segments");
    if (devices == nullptr || segments == nullptr) {
      return Wrong(
          "expected a snapshot with the lists segments and device_traces");
    }
    if (auto s = ReadDevices(*devices); !s.ok()) return s;
    for (size_t k = 0; k < segments->size(); ++k) {
      const absl::Status s = ReadSegment(pickle_[(*segments)[k]]);
      if (!s.ok()) return At(absl::StrCat("segments[", k, "]"), s);
    }
    for (auto& [address, buffer] : here_) {
      if (buffer >= 0) EndOf(buffer) = snapshot_ + 1;
    }
    if (auto s = CheckPlaceProblem(trace_.problem); !s.ok()) return s;
    return std::move(trace_);
  }

 private:
  static absl::Status Wrong(absl::string_view text) {
    return absl::InvalidArgumentError(text);
  }
  static absl::Status At(absl::string_view place, const absl::Status& status) {
    return Wrong(absl::StrCat(place, ": ", status.message()));
  }

  template <class T>
  const T* Get(const Value& dictionary, absl::string_view key) const {
    const Value* value = pickle_.Find(dictionary, key);
    return value == nullptr ? nullptr : std::get_if<T>(value);
  }

  int64_t& EndOf(int buffer) {
    return trace_.problem.buffers[buffer].live.end[0];
  }

  absl::Status ReadDevices(const Pickle::List& devices) {
    for (size_t k = 0; k < devices.size(); ++k) {
      const auto* entries = std::get_if<Pickle::List>(&pickle_[devices[k]]);
      const std::string place = absl::StrCat("device_traces[", k, "]");
      if (entries == nullptr) return Wrong(place + ": expected a list");
      if (entries->empty()) continue;
      if (device_ >= 0) {
        return Wrong(absl::StrCat("expected the history of one device, got ",
                                  device_, " and ", k));
      }
      device_ = static_cast<int64_t>(k);
      snapshot_ = static_cast<int64_t>(entries->size()) + 1;
      for (size_t e = 0; e < entries->size(); ++e) {
        const absl::Status s =
            ReadEntry(pickle_[(*entries)[e]], static_cast<int64_t>(e) + 1);
        if (!s.ok()) return At(absl::StrCat(place, "[", e, "]"), s);
      }
    }
    if (device_ >= 0) return absl::OkStatus();
    return Wrong(
        "expected a history, made by torch.cuda.memory._record_memory_history "
        "before the program allocates");
  }

  absl::Status ReadEntry(const Value& entry, int64_t at) {
    const auto* action = Get<absl::string_view>(entry, "action");
    if (action == nullptr) return Wrong("expected an action");
    const bool is_alloc = *action == "alloc";
    if (!is_alloc && *action != "free_completed") return absl::OkStatus();
    const auto* address = Get<int64_t>(entry, "addr");
    const auto* size = Get<int64_t>(entry, "size");
    const auto* stream = Get<int64_t>(entry, "stream");
    if (address == nullptr || size == nullptr || stream == nullptr) {
      return Wrong("expected the numbers addr, size and stream");
    }
    const auto [found, is_new] = here_.emplace(*address, -1);
    if (is_alloc) {
      if (found->second >= 0) {
        return Wrong(
            absl::StrFormat("expected 0x%x to be freed before it is "
                            "allocated again",
                            *address));
      }
      found->second = Add(absl::StrCat(at - 1), *size, *stream, at);
      return absl::OkStatus();
    }
    if (found->second >= 0) {
      EndOf(found->second) = at;
      found->second = -1;
      return absl::OkStatus();
    }
    if (!is_new) {
      return Wrong(
          absl::StrFormat("expected 0x%x to be allocated before it is "
                          "freed again",
                          *address));
    }
    EndOf(Add(absl::StrFormat("0x%x", *address), *size, *stream, 0)) = at;
    return absl::OkStatus();
  }

  absl::Status ReadSegment(const Value& segment) {
    const auto* device = Get<int64_t>(segment, "device");
    const auto* stream = Get<int64_t>(segment, "stream");
    const auto* blocks = Get<Pickle::List>(segment, "blocks");
    if (device == nullptr || stream == nullptr || blocks == nullptr) {
      return Wrong("expected the numbers device and stream, and blocks");
    }
    if (*device != device_) return absl::OkStatus();
    for (size_t k = 0; k < blocks->size(); ++k) {
      const absl::Status s = ReadBlock(pickle_[(*blocks)[k]], *stream);
      if (!s.ok()) return At(absl::StrCat("blocks[", k, "]"), s);
    }
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const Value& block, int64_t stream) {
    const auto* state = Get<absl::string_view>(block, "state");
    const auto* address = Get<int64_t>(block, "address");
    const auto* size = Get<int64_t>(block, "requested_size");
    if (state == nullptr || address == nullptr || size == nullptr) {
      return Wrong("expected state, address and requested_size");
    }
    if (!absl::StartsWith(*state, "active")) return absl::OkStatus();
    const auto [found, is_new] = here_.emplace(*address, -1);
    if (found->second >= 0) return absl::OkStatus();
    const std::string id =
        absl::StrFormat("0x%x%s", *address, is_new ? "" : " at the end");
    found->second = Add(id, *size, stream, is_new ? 0 : snapshot_);
    return absl::OkStatus();
  }

  int Add(std::string id, int64_t size, int64_t stream, int64_t begin) {
    const auto number = static_cast<int>(streams_.size());
    trace_.ids.push_back(std::move(id));
    trace_.streams.push_back(streams_.emplace(stream, number).first->second);
    // As with RMM's log: one of no bytes has an address of its own.
    trace_.problem.buffers.push_back({.size = Bytes{size == 0 ? 1 : size},
                                      .live = {{begin}, {begin + 1}},
                                      .gaps = {},
                                      .offset = {}});
    return static_cast<int>(trace_.ids.size()) - 1;
  }

  const Pickle pickle_;
  int64_t device_ = -1;
  int64_t snapshot_ = 0;  // its instant
  BufferTrace trace_;
  absl::flat_hash_map<int64_t, int> here_;     // by address; -1: freed
  absl::flat_hash_map<int64_t, int> streams_;  // by handle
};

}  // namespace

bool IsPickle(absl::string_view text) { return absl::StartsWith(text, "\x80"); }

absl::StatusOr<BufferTrace> BufferTraceFromSnapshot(absl::string_view text,
                                                    absl::string_view name) {
  const auto wrong = [name](const absl::Status& status) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", status.message()));
  };
  absl::StatusOr<Pickle> pickle = Pickle::Parse(text);
  if (!pickle.ok()) return wrong(pickle.status());
  absl::StatusOr<BufferTrace> trace = SnapshotReader(*std::move(pickle)).Read();
  if (!trace.ok()) return wrong(trace.status());
  return trace;
}

}  // namespace ebbtide
