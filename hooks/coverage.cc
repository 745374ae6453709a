#include "hooks/coverage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "hooks/device.h"
#include "hooks/eviction.h"
#include "hooks/recipe.h"

namespace ebbtide {
namespace {

std::string NameOf(const Tape& tape, int op) {
  return op < 0 ? "" : tape.ops[op].info->name;
}

std::string MakerOf(const Tape& tape, const TapeStorage& storage) {
  return storage.writers.empty() ? "no op of the pair"
                                 : NameOf(tape, storage.writers.back());
}

// Returns why a storage cannot be evicted, or "" if it can be or has been.
std::string WhyBound(const TapeStorage& storage) {
  if (storage.bytes < LeastManaged()) return "too small to be managed";
  if (!storage.data) return "";
  if (!Device::Get().IsReclaimable(storage.data)) {
    return "memory of another allocator";
  }
  if (storage.captured) return "an input of recipes";
  if (storage.data.use_count() > 1) return "held by the script";
  return "";
}

std::string Describe(const Tape& tape, const NoRecipe& why) {
  const std::string op = NameOf(tape, why.op);
  return op.empty() ? why.reason : absl::StrCat(op, " ", why.reason);
}

// Sums by group.
class Groups {
 public:
  void Add(const std::string& tier, const std::string& op,
           const std::string& reason, Bytes bytes) {
    CoverageGroup& group = groups_[{tier, op, reason}];
    group.tier = tier;
    group.op = op;
    group.reason = reason;
    group.bytes += bytes;
    ++group.storages;
  }

  std::vector<CoverageGroup> LargestFirst() const {
    std::vector<CoverageGroup> sorted;
    for (const auto& [key, group] : groups_) sorted.push_back(group);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const CoverageGroup& a, const CoverageGroup& b) {
                       return a.bytes > b.bytes;
                     });
    return sorted;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, CoverageGroup>
      groups_;
};

void Classify(const Tape& tape, int index, bool can_spill, Coverage* coverage,
              Groups* groups) {
  const TapeStorage& storage = tape.storages[index];
  const Bytes bytes{static_cast<int64_t>(storage.bytes)};
  const std::string bound = WhyBound(storage);
  if (storage.external) {
    coverage->outside += bytes;
    groups->Add("outside", MakerOf(tape, storage),
                bound.empty() ? "can be offloaded" : bound, bytes);
    return;
  }
  const auto add = [&](const char* tier, const std::string& reason) {
    groups->Add(tier, MakerOf(tape, storage), reason, bytes);
  };
  if (!bound.empty()) {
    coverage->kept += bytes;
    add("kept", bound);
    return;
  }
  if (!storage.data) coverage->away += bytes;
  const auto why = WhyNoRecipe(tape, index);
  if (!why) {
    coverage->recomputable += bytes;
  } else if (can_spill || storage.spill) {
    coverage->offload_only += bytes;
    add("offload only", Describe(tape, *why));
  } else {
    coverage->kept += bytes;
    add("kept", absl::StrCat(Describe(tape, *why), ", and no ",
                             Device::Get().tier_words().moving));
  }
}

// True if an untaped save has the bytes of a saved storage of the tape.
bool IsCounted(const Tape& tape, const UntapedSave& save) {
  return std::any_of(tape.storages.begin(), tape.storages.end(),
                     [&](const TapeStorage& storage) {
                       return storage.hooks > 0 && save.storage != nullptr &&
                              storage.identity._unsafe_get_target() ==
                                  save.storage;
                     });
}

}  // namespace

Coverage FindCoverage(const Tape& tape, bool can_spill) {
  Coverage coverage;
  Groups groups;
  for (int i = 0; i < static_cast<int>(tape.storages.size()); ++i) {
    const TapeStorage& storage = tape.storages[i];
    if (storage.hooks == 0) continue;
    if (storage.parameter) {
      coverage.parameters += Bytes{static_cast<int64_t>(storage.bytes)};
    } else {
      Classify(tape, i, can_spill, &coverage, &groups);
    }
  }
  for (const UntapedSave& save : tape.untaped) {
    if (IsCounted(tape, save)) continue;
    coverage.kept += save.bytes;
    groups.Add("kept",
               save.op < 0 ? "no op of the pair" : NameOf(tape, save.op),
               save.reason, save.bytes);
  }
  coverage.groups = groups.LargestFirst();
  return coverage;
}

Bytes SavedFromOutside(const Tape& tape) {
  Bytes sum{};
  for (const TapeStorage& storage : tape.storages) {
    if (storage.external && storage.hooks > 0 && IsEvictable(storage)) {
      sum += Bytes{static_cast<int64_t>(storage.bytes)};
    }
  }
  return sum;
}

std::string WhyNotPlain(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided) {
    return absl::StrCat("layout ", c10::str(tensor.layout()));
  }
  if (tensor.device().type() != Device::Get().type()) {
    return absl::StrCat("device ", tensor.device().str());
  }
  if (tensor.is_quantized()) return "quantized";
  if (tensor.is_inference()) return "made in inference mode";
  return "a tensor subclass, or traced";
}

}  // namespace ebbtide
