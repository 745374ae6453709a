// From a measured tape to the planner's profile.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "hooks/device.h"
#include "hooks/recipe.h"
#include "hooks/replay.h"
#include "hooks/watch.h"

namespace ebbtide {
namespace {

Bytes SizeOnDevice(const TapeStorage& storage) {
  return Device::Get().SizeOnDevice(storage.bytes);
}

class Builder {
 public:
  Builder(const Tape& tape, const HostTier* tier) : tape_(tape) {
    ops_ = tape.ops.size();
    stages_ = tape.stages.size();
    if (tier != nullptr) {
      measured_.profile.d2h = tier->WriteBandwidth() / 1e9;
      measured_.profile.h2d = tier->ReadBandwidth() / 1e9;
      measured_.profile.host = tier->room().limit;
    }
  }

  MeasuredProfile Build() {
    AddOps();
    AddValues();
    ConnectOps();
    if (Device::Get().is_async()) OutliveInputs();
    AddStages();
    return std::move(measured_);
  }

 private:
  // Small saved tensors are never evicted: like parameters they are always
  // there, and among what plans do not move.
  static bool IsValue(const TapeStorage& storage) {
    const bool stays = storage.last_pack >= 0 && storage.bytes < LeastManaged();
    return !storage.external && !storage.writers.empty() && !stays;
  }

  int Instant(int released) const {
    if (released < 0) return ops_ + stages_;
    if (released < kStageInstant) return released;
    return ops_ + released - kStageInstant;
  }

  void AddOps() {
    for (const TapeOp& op : tape_.ops) {
      measured_.profile.ops.push_back({.name = op.info->name,
                                       .time = op.nanoseconds,
                                       .spread = op.spread,
                                       .other = op.other,
                                       .scratch = op.scratch,
                                       .replayable = RunsAgain(op)});
    }
  }

  void AddValues() {
    value_of_.assign(tape_.storages.size(), -1);
    for (int i = 0; i < static_cast<int>(tape_.storages.size()); ++i) {
      const TapeStorage& storage = tape_.storages[i];
      if (!IsValue(storage)) continue;
      const int op = storage.writers.back();
      const bool saved = storage.last_pack >= 0;
      Value value = {.name = tape_.ops[op].info->name,
                     .bytes = SizeOnDevice(storage),
                     .op = op,
                     .saved = saved,
                     .retainable = saved,
                     .movable = saved,
                     .released = std::max(op, Instant(storage.released))};
      value_of_[i] = measured_.profile.values.size();
      measured_.profile.values.push_back(std::move(value));
      measured_.profile.ops[op].outputs.push_back(value_of_[i]);
      measured_.storages.push_back(i);
      if (storage.opaque ||
          MayHaveChangedSince(storage, storage.writers.front())) {
        measured_.profile.ops[op].replayable = false;
      }
      if (saved) LeaveOut(storage, op);
    }
  }

  // A saved value is counted by the planner from its op on; the measurement had
  // it among the rest until the op that saved it.
  void LeaveOut(const TapeStorage& storage, int op) {
    const int last = std::max(op, storage.tagged);
    for (int i = op; i <= last; ++i) {
      Bytes& other = measured_.profile.ops[i].other;
      other = std::max(Bytes{}, other - SizeOnDevice(storage));
    }
  }

  // The recipe of a value is all that wrote its storage, as one op.
  void ConnectOps() {
    for (int i = 0; i < ops_; ++i) {
      absl::flat_hash_set<int> inputs;
      AddReads(i, i, &inputs);
      for (int value : measured_.profile.ops[i].outputs) {
        const TapeStorage& storage = tape_.storages[measured_.storages[value]];
        for (int writer : storage.writers) {
          if (writer == i) continue;
          AddReads(writer, i, &inputs);
          Merge(writer, i);
        }
      }
      Op& op = measured_.profile.ops[i];
      op.inputs.assign(inputs.begin(), inputs.end());
      std::sort(op.inputs.begin(), op.inputs.end());
      for (int input : op.inputs) {
        int& released = measured_.profile.values[input].released;
        released = std::max(released, i);
      }
    }
  }

  // A recipe that reads what the script still holds needs a witness of it
  // (hooks/outside.h), for which the host would wait. So its saved output
  // counts as held until the script has released that input, if that is in the
  // forward pass.
  void OutliveInputs() {
    for (const Op& op : measured_.profile.ops) {
      for (int output : op.outputs) {
        Value& made = measured_.profile.values[output];
        for (int input : op.inputs) {
          const int released = measured_.profile.values[input].released;
          if (made.saved && released < ops_) {
            made.released = std::max(made.released, released);
          }
        }
      }
    }
  }

  void AddReads(int reader, int op, absl::flat_hash_set<int>* inputs) {
    const TapeOp& taped = tape_.ops[reader];
    for (int a = 0; a < static_cast<int>(taped.arguments.size()); ++a) {
      if (!ReadsArgument(taped, a)) continue;
      for (const TensorArgument& t : taped.arguments[a].tensors) {
        const int value = t.storage < 0 ? -1 : value_of_[t.storage];
        if (value < 0) continue;
        const int made = measured_.profile.values[value].op;
        if (made == op) continue;  // its own earlier content
        if (made > reader ||
            MayHaveChangedSince(tape_.storages[t.storage], reader)) {
          // Read before its last write: that content cannot be had again.
          measured_.profile.ops[op].replayable = false;
        } else {
          inputs->insert(value);
        }
      }
    }
  }

  void Merge(int from, int to) {
    Op& earlier = measured_.profile.ops[from];
    Op& later = measured_.profile.ops[to];
    later.replayable = later.replayable && RunsAgain(tape_.ops[from]);
    later.scratch = std::max(later.scratch, earlier.scratch);
    if (earlier.outputs.empty()) {
      later.time += std::exchange(earlier.time, 0);
      later.spread = Sum(later.spread, std::exchange(earlier.spread, {}));
    }
  }

  void AddStages() {
    for (const TapeStage& taped : tape_.stages) {
      Stage stage = {.name = taped.name,
                     .time = taped.nanoseconds,
                     .spread = taped.spread,
                     .before = taped.before,
                     .during = std::max(taped.before, taped.during)};
      for (int storage : taped.needs) {
        if (value_of_[storage] >= 0) stage.needs.push_back(value_of_[storage]);
      }
      measured_.profile.stages.push_back(std::move(stage));
    }
  }

  const Tape& tape_;
  int ops_ = 0;
  int stages_ = 0;
  std::vector<int> value_of_;  // by storage
  MeasuredProfile measured_;
};

}  // namespace

MeasuredProfile BuildProfile(const Tape& tape, const Watch& watch,
                             const HostTier* tier) {
  MeasuredProfile measured = Builder(tape, tier).Build();
  measured.profile.tail = watch.tail();
  measured.profile.tail_time =
      std::max(0.0, watch.step_nanoseconds() - BaseTime(measured.profile));
  return measured;
}

}  // namespace ebbtide
