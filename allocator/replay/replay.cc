#include "allocator/replay/replay.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/check.h"

namespace ebbtide {
namespace {

absl::Status CheckPlain(const BufferTrace& trace) {
  for (size_t id = 0; id < trace.ids.size(); ++id) {
    const Buffer& b = trace.problem.buffers[id];
    if (b.live.begin.size() == 1 && b.gaps.empty() && !b.offset &&
        b.alignment == Bytes{1}) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer \"", trace.ids[id],
        "\": expected one clock and no gap, alignment or fixed offset: only "
        "the policy plan takes them"));
  }
  return absl::OkStatus();
}

}  // namespace

void ReplayPolicy::Free(int64_t address) {
  const auto block = taken_.find(address);
  EBBTIDE_CHECK(block != taken_.end());
  const auto [to, size] = block->second;
  to->Add({.begin = address, .size = size});
  taken_.erase(block);
}

absl::StatusOr<Replayed> Replay(const BufferTrace& trace, int steps,
                                ReplayPolicy* policy) {
  if (auto s = CheckPlain(trace); !s.ok()) return s;
  const auto& buffers = trace.problem.buffers;
  std::vector<std::tuple<int64_t, bool, int>> events;  // instant, begins, who
  for (int id = 0; id < static_cast<int>(buffers.size()); ++id) {
    events.push_back({buffers[id].live.begin[0], true, id});
    events.push_back({buffers[id].live.end[0], false, id});
  }
  std::sort(events.begin(), events.end());
  Replayed replayed;
  replayed.addresses.resize(buffers.size());
  int64_t calls = 0;
  for (int step = 0; step < steps; ++step) {
    for (const auto& [at, begins, id] : events) {
      Bytes& address = replayed.addresses[id];
      if (begins) {
        address =
            Bytes{policy->Allocate(Count(buffers[id].size), trace.streams[id])};
      } else {
        policy->Free(Count(address));
      }
    }
    replayed.steps.push_back(
        {Bytes{policy->reserved()}, policy->driver_calls() - calls});
    calls = policy->driver_calls();
  }
  return replayed;
}

}  // namespace ebbtide
