// Quality of a profile.
#include <torch/version.h>

#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "hooks/device.h"
#include "hooks/runtime.h"

namespace ebbtide {
namespace {

// Backward ops do the same work where they are of one kind and have saved the
// same, of the same ops.
uint64_t KeyOf(const Tape& tape, const TapeStage& stage) {
  uint64_t key = absl::HashOf(stage.name);
  for (const int needed : stage.needs) {
    const TapeStorage& storage = tape.storages[needed];
    const uint64_t made = storage.writers.empty()
                              ? 0
                              : tape.ops[storage.writers.back()].signature;
    key = absl::HashOf(key, storage.bytes, made);
  }
  return key;
}

template <class Part, class Key>
void SpreadParts(const std::vector<TimeSamples>& samples, Key key,
                 std::vector<Part>* parts) {
  if (samples.size() != parts->size()) return;
  std::vector<TimedOp> timed;
  timed.reserve(parts->size());
  for (size_t i = 0; i < parts->size(); ++i) {
    timed.push_back({.key = key((*parts)[i]),
                     .time = (*parts)[i].nanoseconds,
                     .spread = samples[i].Spread()});
  }
  PoolTimes(&timed);
  for (size_t i = 0; i < parts->size(); ++i) {
    (*parts)[i].nanoseconds = timed[i].time;
    (*parts)[i].spread = timed[i].spread;
  }
}

}  // namespace

void Runtime::SpreadTimes(const SignatureBook& book) {
  SpreadParts(
      book.op_times, [](const TapeOp& op) { return op.signature; },
      &tape_->ops);
  SpreadParts(
      book.stage_times,
      [this](const TapeStage& stage) { return KeyOf(*tape_, stage); },
      &tape_->stages);
}

Origin Runtime::OriginOf(const SignatureBook& book) const {
  const Device::Facts facts = Device::Get().FactsOf(device_);
  return {.device = facts.name,
          .megahertz = facts.megahertz,
          .versions =
              absl::StrCat("ebbtide " EBBTIDE_VERSION ", torch " TORCH_VERSION,
                           facts.versions.empty() ? "" : ", ", facts.versions),
          .clock = !Device::Get().is_async() ? "the host's steady clock"
                   : book.windows > 0        ? "CUPTI"
                                             : "CUDA events",
          .date = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(),
                                   absl::UTCTimeZone())};
}

}  // namespace ebbtide
