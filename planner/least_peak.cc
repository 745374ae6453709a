#include "planner/least_peak.h"

#include <algorithm>
#include <vector>

#include "planner/simulate.h"

namespace ebbtide {
namespace {

// Half-open.
struct Stay {
  int begin = 0;
  int end = 0;
};

// The instants from its op on in which every plan has a saved value.
Stay StayOf(const Profile& profile, int v, int last_need, bool offload) {
  const Value& value = profile.values[v];
  const bool pinned = !profile.ops[value.op].replayable || !value.retainable;
  // During the instant of its release the script may have released it already.
  int end = value.released;
  if (pinned && !(offload && value.movable)) end = std::max(end, last_need + 1);
  return {value.op, std::max(end, value.op)};
}

std::vector<int> LastNeeds(const Profile& profile) {
  const int forward = static_cast<int>(profile.ops.size());
  std::vector<int> last(profile.values.size(), -1);
  for (size_t t = 0; t < profile.stages.size(); ++t) {
    for (int v : profile.stages[t].needs) {
      last[v] = forward + static_cast<int>(t);
    }
  }
  return last;
}

// The planner's values that must be there at an instant, whatever the plan.
std::vector<int> NeedsAt(const Profile& profile, int instant) {
  const int forward = static_cast<int>(profile.ops.size());
  if (instant >= forward) return profile.stages[instant - forward].needs;
  const Op& op = profile.ops[instant];
  std::vector<int> needs = op.inputs;
  needs.insert(needs.end(), op.outputs.begin(), op.outputs.end());
  std::erase_if(needs, [&](int v) { return !profile.values[v].saved; });
  return needs;
}

bool IsThere(const Stay& stay, int instant) {
  return stay.begin <= instant && instant < stay.end;
}

// Those that do not stay anyway, in their order.
std::vector<int> ExtraNeeds(const Profile& profile, int instant,
                            const std::vector<Stay>& stays) {
  std::vector<int> needs = NeedsAt(profile, instant);
  std::sort(needs.begin(), needs.end());
  needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  std::erase_if(needs, [&](int v) { return IsThere(stays[v], instant); });
  return needs;
}

// All that are there at an instant.
std::vector<int> ValuesAt(const Profile& profile, int instant,
                          const std::vector<Stay>& stays) {
  std::vector<int> values;
  const int end = static_cast<int>(profile.ops.size() + profile.stages.size());
  if (instant < end) values = ExtraNeeds(profile, instant, stays);
  for (int v = 0; v < static_cast<int>(stays.size()); ++v) {
    if (IsThere(stays[v], instant)) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

LeastPeak FindLeastPeak(const Profile& profile, bool offload) {
  const int forward = static_cast<int>(profile.ops.size());
  const int end = forward + static_cast<int>(profile.stages.size());
  const std::vector<int> last = LastNeeds(profile);
  std::vector<Stay> stays(profile.values.size());
  std::vector<int64_t> change(end + 2, 0);
  for (size_t v = 0; v < stays.size(); ++v) {
    if (!profile.values[v].saved) continue;
    stays[v] = StayOf(profile, static_cast<int>(v), last[v], offload);
    change[stays[v].begin] += Count(profile.values[v].bytes);
    change[stays[v].end] -= Count(profile.values[v].bytes);
  }
  LeastPeak least;
  int64_t staying = 0;
  for (int k = 0; k <= end; ++k) {
    staying += change[k];
    Bytes bytes{staying};
    Bytes other = profile.tail;
    if (k < end) {
      other = k < forward ? profile.ops[k].other
                          : profile.stages[k - forward].during;
      for (int v : ExtraNeeds(profile, k, stays)) {
        bytes += profile.values[v].bytes;
      }
    }
    bytes += other;
    if (k == 0 || bytes > least.bytes) {
      least = {.bytes = bytes, .other = other, .instant = k};
    }
  }
  least.name = InstantName(profile, least.instant);
  least.values = ValuesAt(profile, least.instant, stays);
  return least;
}

}  // namespace ebbtide
