#include "hooks/steady.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {
namespace {

// Gives the storages that are not left to PyTorch new numbers in the order of
// their first saves, which is the order in which a pair meets them.
absl::flat_hash_map<int, int> Renumber(std::vector<SaveMark>* saves) {
  absl::flat_hash_map<int, int> numbers;
  for (SaveMark& save : *saves) {
    if (save.storage < 0) continue;
    save.storage =
        numbers.try_emplace(save.storage, numbers.size()).first->second;
  }
  return numbers;
}

// The first save made by an op behind `op`, or -1.
int FirstSaveBehind(const std::vector<SaveMark>& saves, int op) {
  for (size_t i = 0; i < saves.size(); ++i) {
    if (saves[i].op > op) return static_cast<int>(i);
  }
  return -1;
}

// True if a pair in the steady state sees backward op `stage`.
bool AsksFor(const absl::flat_hash_map<int, int>& numbers,
             const MeasuredProfile& measured, int stage) {
  const std::vector<int>& needs = measured.profile.stages[stage].needs;
  return std::any_of(needs.begin(), needs.end(), [&](int value) {
    return numbers.contains(measured.storages[value]);
  });
}

// When each instant of the profile, that of the tail included, has come, in
// terms of SteadyRun::instant.
std::vector<int> CountInstants(const std::vector<SaveMark>& saves,
                               const absl::flat_hash_map<int, int>& numbers,
                               const MeasuredProfile& measured) {
  std::vector<int> counts;
  const int ops = measured.profile.ops.size();
  size_t save = 0;  // the first one that is not before `op`
  for (int op = 0; op < ops; ++op) {
    while (save < saves.size() && saves[save].op < op) ++save;
    counts.push_back(save);
  }
  const int stages = measured.profile.stages.size();
  int count = saves.size();
  for (int stage = 0; stage < stages; ++stage) {
    counts.push_back(count);
    if (AsksFor(numbers, measured, stage)) ++count;
  }
  counts.push_back(count);
  return counts;
}

// True if a pair in the steady state sees when stage `instant` of the profile
// begins: the stage asks for a storage that the steady plan has.
bool IsSeen(const std::vector<int>& counts, int instant) {
  return instant + 1 < static_cast<int>(counts.size()) &&
         counts[instant] < counts[instant + 1];
}

// The last instant of a pair in the steady state that is no later than
// `instant` of the profile. A pair comes to its next save within the next op,
// whose output is there by then, or behind it. Bytes that left so late would be
// beside that output, where the plan has them gone.
int LastBy(const std::vector<int>& counts, int ops, int instant) {
  const bool is_seen = instant >= ops && IsSeen(counts, instant);
  return is_seen ? counts[instant] : std::max(counts[instant] - 1, 0);
}

// As in SteadyPlan. An instant of the profile has come by its count, and began
// after the one before.
std::vector<Bytes> RoomByInstant(const std::vector<int>& counts,
                                 const Simulation& simulation) {
  std::vector<Bytes> room(counts.back() + 1, simulation.peak);
  for (size_t i = 0; i < counts.size(); ++i) {
    const Bytes left = simulation.peak - simulation.curve[i];
    for (int k = std::max(counts[i] - 1, 0); k <= counts[i]; ++k) {
      room[k] = std::min(room[k], left);
    }
  }
  return room;
}

bool MayBeEvicted(const TapeStorage& storage) {
  return storage.bytes >= LeastManaged() && !storage.external;
}

}  // namespace

std::vector<SaveMark> EvictableSaves(const Tape& tape) {
  std::vector<SaveMark> saves = tape.saves;
  for (SaveMark& save : saves) {
    if (save.storage < 0) continue;
    const TapeStorage& storage = tape.storages[save.storage];
    const auto& writers = storage.writers;
    if (!writers.empty()) save.maker = tape.ops[writers.back()].info->name;
    if (!MayBeEvicted(storage)) save.storage = -1;
  }
  return saves;
}

std::shared_ptr<const SteadyPlan> MakeSteadyPlan(
    std::vector<SaveMark> saves, const MeasuredProfile& measured,
    const Plan& plan, const Simulation& simulation) {
  if (Contains(plan, Action::Do::kRecompute)) return nullptr;
  auto steady = std::make_shared<SteadyPlan>();
  const absl::flat_hash_map<int, int> numbers = Renumber(&saves);
  steady->storages = numbers.size();
  steady->saves = std::move(saves);
  const std::vector<int> counts =
      CountInstants(steady->saves, numbers, measured);
  steady->room = RoomByInstant(counts, simulation);
  const int saves_made = steady->saves.size();
  steady->has_spills.resize(saves_made);
  auto departure = simulation.departures.begin();
  const int ops = measured.profile.ops.size();
  int op = -1;
  std::vector<int> due;
  for (const Action& action : plan.actions) {
    switch (action.what) {
      case Action::Do::kForward:
        op = action.index;
        break;
      case Action::Do::kBackward:
        if (!IsSeen(counts, ops + action.index)) break;
        steady->restores.push_back(std::exchange(due, {}));
        break;
      case Action::Do::kOffload: {
        int until = LastBy(counts, ops, *departure++);
        const Value& value = measured.profile.values[action.index];
        const int save =
            FirstSaveBehind(steady->saves, std::max(op, value.released));
        const auto number = numbers.find(measured.storages[action.index]);
        // A storage with no later save is offloaded on demand.
        if (save < 0 || number == numbers.end()) break;
        until = std::max(until, save);
        steady->spills.push_back({save, number->second, until});
        for (const int at : {save, until}) {
          if (at < saves_made) steady->has_spills[at] = true;
        }
        break;
      }
      case Action::Do::kRestore: {
        const auto number = numbers.find(measured.storages[action.index]);
        if (number != numbers.end()) due.push_back(number->second);
        break;
      }
      default:
        break;
    }
  }
  std::stable_sort(steady->spills.begin(), steady->spills.end(),
                   [](const auto& a, const auto& b) {
                     return a.before_save < b.before_save;
                   });
  return steady;
}

std::shared_ptr<const SteadyPlan> MakeKeepingPlan(const Tape& tape) {
  std::vector<SaveMark> saves = EvictableSaves(tape);
  const auto is_seen = [](const SaveMark& save) { return save.storage >= 0; };
  if (std::none_of(saves.begin(), saves.end(), is_seen)) {
    const auto last =
        std::find_if(tape.saves.rbegin(), tape.saves.rend(), is_seen);
    if (last == tape.saves.rend()) return nullptr;
    saves[tape.saves.rend() - last - 1].storage = last->storage;
  }
  auto steady = std::make_shared<SteadyPlan>();
  steady->storages = Renumber(&saves).size();
  steady->room.assign(saves.size() + 1, kNoBudget);
  steady->saves = std::move(saves);
  return steady;
}

absl::Span<const int> SteadyRun::RestoresDue(const void* node) {
  if (node == node_ || diverged_) return {};
  node_ = node;
  instant_ = plan_->saves.size() + next_stage_;
  if (next_stage_ >= plan_->restores.size()) return {};
  return plan_->restores[next_stage_++];
}

bool SteadyRun::IsNative(int position, uint64_t sequence) {
  if (position >= static_cast<int>(plan_->saves.size()) ||
      plan_->saves[position].sequence != sequence) {
    diverged_ = true;
  }
  return !diverged_ && plan_->saves[position].storage < 0;
}

void SteadyRun::Check(int position, const at::Tensor& tensor, int storage) {
  if (diverged_) return;
  const SaveMark& planned = plan_->saves[position];
  diverged_ = planned.storage != storage ||
              planned.elements != tensor.numel() ||
              planned.type != tensor.scalar_type();
}

}  // namespace ebbtide
