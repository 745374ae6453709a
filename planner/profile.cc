#include "planner/profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// No sum of a profile may come near the end of int64.
constexpr int64_t kMostBytes = int64_t{1} << 60;
// Sums of whole times stay exact below this.
constexpr double kMostTime = 9007199254740992.0;

template <class... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckBytes(Bytes bytes, absl::string_view place) {
  if (Count(bytes) >= 0 && Count(bytes) <= kMostBytes) return absl::OkStatus();
  return Bad(place, ": expected bytes from 0 to ", kMostBytes, ", got ",
             Count(bytes));
}

absl::Status CheckTime(Time time, absl::string_view place) {
  if (time >= 0 && time <= kMostTime) return absl::OkStatus();
  return Bad(place, ": expected a time from 0 to ", kMostTime, ", got ", time);
}

absl::Status CheckSpread(const TimeSpread& spread, const std::string& place) {
  if (spread.steps < 0) {
    return Bad(place, ".steps: expected none or more, got ", spread.steps);
  }
  if (auto s = CheckTime(spread.median, place + ".median"); !s.ok()) return s;
  if (auto s = CheckTime(spread.quartiles, place + ".quartiles"); !s.ok()) {
    return s;
  }
  return CheckTime(spread.most, place + ".most");
}

absl::Status CheckBandwidth(double bandwidth, absl::string_view place) {
  if (bandwidth >= 0 && std::isfinite(bandwidth)) return absl::OkStatus();
  return Bad(place, ": expected bytes per unit of time, got ", bandwidth);
}

absl::Status CheckIndex(int index, size_t size, absl::string_view place) {
  if (index >= 0 && static_cast<size_t>(index) < size) return absl::OkStatus();
  return Bad(place, ": expected a value below ", size, ", got ", index);
}

absl::Status CheckValue(const Profile& profile, int v) {
  const Value& value = profile.values[v];
  const std::string place = absl::StrCat("values[", v, "]");
  if (auto s = CheckBytes(value.bytes, place + ".bytes"); !s.ok()) return s;
  if (auto s = CheckIndex(value.op, profile.ops.size(), place + ".op");
      !s.ok()) {
    return s;
  }
  const std::vector<int>& made = profile.ops[value.op].outputs;
  if (std::count(made.begin(), made.end(), v) != 1) {
    return Bad(place, ".op: expected an op with output ", v, ", got ops[",
               value.op, "] without it");
  }
  const int last = static_cast<int>(profile.ops.size() + profile.stages.size());
  if (value.released < value.op || value.released > last) {
    return Bad(place, ".released: expected an instant from ", value.op, " to ",
               last, ", got ", value.released);
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Profile& profile, int i) {
  const Op& op = profile.ops[i];
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const std::string place = absl::StrCat("ops[", i, "].inputs[", k, "]");
    const int v = op.inputs[k];
    if (auto s = CheckIndex(v, profile.values.size(), place); !s.ok()) return s;
    if (profile.values[v].op >= i) {
      return Bad(place, ": expected a value of an op before ", i,
                 ", got value ", v, " of op ", profile.values[v].op);
    }
    if (profile.values[v].released < i) {
      return Bad(place, ": expected a value held until op ", i, ", got value ",
                 v, ", released at instant ", profile.values[v].released);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOp(const Profile& profile, int i) {
  const Op& op = profile.ops[i];
  const std::string place = absl::StrCat("ops[", i, "]");
  if (auto s = CheckInputs(profile, i); !s.ok()) return s;
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    const std::string output = absl::StrCat(place, ".outputs[", k, "]");
    const int v = op.outputs[k];
    if (auto s = CheckIndex(v, profile.values.size(), output); !s.ok()) {
      return s;
    }
    if (profile.values[v].op != i) {
      return Bad(output, ": expected a value whose op is ", i, ", got value ",
                 v, " of op ", profile.values[v].op);
    }
  }
  if (auto s = CheckTime(op.time, place + ".time"); !s.ok()) return s;
  if (auto s = CheckTime(op.host_time, place + ".host_time"); !s.ok()) return s;
  if (auto s = CheckSpread(op.spread, place + ".spread"); !s.ok()) return s;
  if (auto s = CheckBytes(op.other, place + ".other"); !s.ok()) return s;
  return CheckBytes(op.scratch, place + ".scratch");
}

absl::Status CheckStage(const Profile& profile, int t) {
  const Stage& stage = profile.stages[t];
  const std::string place = absl::StrCat("stages[", t, "]");
  for (size_t k = 0; k < stage.needs.size(); ++k) {
    if (auto s = CheckIndex(stage.needs[k], profile.values.size(),
                            absl::StrCat(place, ".needs[", k, "]"));
        !s.ok()) {
      return s;
    }
  }
  if (auto s = CheckTime(stage.time, place + ".time"); !s.ok()) return s;
  if (auto s = CheckTime(stage.host_time, place + ".host_time"); !s.ok()) {
    return s;
  }
  if (auto s = CheckSpread(stage.spread, place + ".spread"); !s.ok()) return s;
  if (auto s = CheckBytes(stage.before, place + ".before"); !s.ok()) return s;
  if (auto s = CheckBytes(stage.during, place + ".during"); !s.ok()) return s;
  if (stage.during >= stage.before) return absl::OkStatus();
  return Bad(place, ".during: expected at least `before`, ",
             Count(stage.before), ", got ", Count(stage.during));
}

absl::Status CheckSums(const Profile& profile) {
  int64_t bytes = 0;
  for (size_t v = 0; v < profile.values.size(); ++v) {
    bytes += Count(profile.values[v].bytes);
    if (bytes > kMostBytes) {
      return Bad("values[", v, "].bytes: expected a sum of at most ",
                 kMostBytes, " bytes up to here, got ", bytes);
    }
  }
  Time sum = BaseTime(profile);
  for (const Op& op : profile.ops) sum += op.host_time;
  for (const Stage& stage : profile.stages) sum += stage.host_time;
  if (sum <= kMostTime) return absl::OkStatus();
  return Bad("ops, stages: expected times with a sum of at most ", kMostTime,
             ", got ", sum);
}

// The instant after which an unmanaged run has dropped each saved value: once
// the script has released it and its last stage has run. A value that no stage
// needs goes with the graph, after the last stage.
std::vector<int> LastInstants(const Profile& profile) {
  const int forward = static_cast<int>(profile.ops.size());
  const int end = forward + static_cast<int>(profile.stages.size()) - 1;
  std::vector<int> last(profile.values.size(), -1);
  for (size_t t = 0; t < profile.stages.size(); ++t) {
    for (int v : profile.stages[t].needs) last[v] = forward + t;
  }
  for (size_t v = 0; v < last.size(); ++v) {
    if (last[v] < 0) last[v] = end;
    last[v] = std::max(last[v], profile.values[v].released);
  }
  return last;
}

}  // namespace

absl::Status CheckProfile(const Profile& profile) {
  for (size_t i = 0; i < profile.ops.size(); ++i) {
    if (auto s = CheckOp(profile, i); !s.ok()) return s;
  }
  for (size_t v = 0; v < profile.values.size(); ++v) {
    if (auto s = CheckValue(profile, v); !s.ok()) return s;
  }
  for (size_t t = 0; t < profile.stages.size(); ++t) {
    if (auto s = CheckStage(profile, t); !s.ok()) return s;
  }
  if (auto s = CheckBytes(profile.tail, "tail"); !s.ok()) return s;
  if (auto s = CheckTime(profile.tail_time, "tail_time"); !s.ok()) return s;
  if (auto s = CheckBandwidth(profile.d2h, "d2h"); !s.ok()) return s;
  if (auto s = CheckBandwidth(profile.h2d, "h2d"); !s.ok()) return s;
  return CheckSums(profile);
}

Bytes UnmanagedPeak(const Profile& profile) {
  const size_t forward = profile.ops.size();
  const size_t instants = forward + profile.stages.size();
  std::vector<int64_t> change(instants + 1, 0);
  const std::vector<int> last = LastInstants(profile);
  for (size_t v = 0; v < last.size(); ++v) {
    if (!profile.values[v].saved) continue;
    change[profile.values[v].op] += Count(profile.values[v].bytes);
    if (last[v] + 1 <= static_cast<int>(instants)) {
      change[last[v] + 1] -= Count(profile.values[v].bytes);
    }
  }
  int64_t saved = 0;
  int64_t peak = 0;
  for (size_t k = 0; k <= instants; ++k) {
    saved += change[k];
    const Bytes other = k < forward    ? profile.ops[k].other
                        : k < instants ? profile.stages[k - forward].during
                                       : profile.tail;
    peak = std::max(peak, saved + Count(other));
  }
  return Bytes{peak};
}

Time BaseTime(const Profile& profile) {
  Time sum = 0;
  for (const Op& op : profile.ops) sum += op.time;
  for (const Stage& stage : profile.stages) sum += stage.time;
  return sum;
}

Time UnmanagedTime(const Profile& profile) {
  Time host = 0;
  Time device = 0;
  const auto issue = [&](const auto& part) {
    host += part.host_time;
    device = std::max(device, host) + part.time;
  };
  for (const Op& op : profile.ops) issue(op);
  for (const Stage& stage : profile.stages) issue(stage);
  return device;
}

}  // namespace ebbtide
