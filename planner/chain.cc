#include "planner/chain.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "planner/json_reader.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;

// No sum of sizes may come near the end of int64.
constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr double kMostTime = 9007199254740992.0;  // 2^53
constexpr size_t kMostStages = 100000;

template <class... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckLength(const char* name, size_t got, size_t expected) {
  if (got == expected) return absl::OkStatus();
  return Bad(name, ": expected ", expected, " elements, got ", got);
}

absl::Status CheckBytes(const char* name, const std::vector<Bytes>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t bytes = Count(list[i]);
    const int64_t most = kMostBytes / static_cast<int64_t>(list.size());
    if (bytes >= 0 && bytes <= most) continue;
    return Bad(name, "[", i, "]: expected a size from 0 to ", most, ", got ",
               bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const char* name, const std::vector<Time>& list) {
  double sum = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    sum += list[i];
    if (list[i] >= 0 && sum <= kMostTime) continue;
    return Bad(name, "[", i, "]: expected a time of at least 0 and a sum of ",
               "at most ", kMostTime, ", got ", list[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckLengths(const Chain& chain) {
  const size_t stages = chain.fw.size();
  if (stages == 0 || stages > kMostStages) {
    return Bad("fw: expected 1 to ", kMostStages, " elements, got ", stages);
  }
  for (const auto& [name, got, expected] :
       {std::tuple{"bw", chain.bw.size(), stages + 1},
        std::tuple{"x", chain.x.size(), stages + 1},
        std::tuple{"xb", chain.xb.size(), stages + 1},
        std::tuple{"ft", chain.ft.size(), stages},
        std::tuple{"bt", chain.bt.size(), stages + 1}}) {
    if (auto s = CheckLength(name, got, expected); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const Chain& chain) {
  for (size_t k = 0; k < chain.options.size(); ++k) {
    const ChainOption& option = chain.options[k];
    const std::string place = absl::StrCat("options[", k, "]");
    if (option.stage < 0 || option.stage >= Stages(chain)) {
      return Bad(place, ".stage: expected a value below ", Stages(chain),
                 ", got ", option.stage);
    }
    if (auto s = CheckBytes(place.c_str(), {option.xb, option.ft, option.bt});
        !s.ok()) {
      return s;
    }
    if (auto s = CheckTimes(place.c_str(), {option.fw, option.bw}); !s.ok()) {
      return s;
    }
    if (option.xb < chain.x[option.stage + 1]) {
      return Bad(place, ".xb: expected at least the output x[",
                 option.stage + 1, "] = ", Count(chain.x[option.stage + 1]),
                 ", got ", Count(option.xb));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const Chain& chain) {
  std::vector<Bytes> bytes, grads, states;
  std::vector<Time> updates, on_host;
  for (size_t k = 0; k < chain.weights.size(); ++k) {
    const ChainWeight& weight = chain.weights[k];
    const std::string place = absl::StrCat("weights[", k, "].stages");
    if (weight.stages.empty()) return Bad(place, ": expected at least one");
    for (int stage : weight.stages) {
      if (stage >= 0 && stage < Stages(chain)) continue;
      return Bad(place, ": expected values below ", Stages(chain), ", got ",
                 stage);
    }
    bytes.push_back(weight.bytes);
    grads.push_back(weight.grad);
    states.push_back(weight.state);
    updates.push_back(weight.update);
    on_host.push_back(weight.host_update < 0 ? 0 : weight.host_update);
  }
  for (const auto& [name, list] :
       {std::pair{"weights.bytes", &bytes}, std::pair{"weights.grad", &grads},
        std::pair{"weights.state", &states}}) {
    if (auto s = CheckBytes(name, *list); !s.ok()) return s;
  }
  if (auto s = CheckTimes("weights.update", updates); !s.ok()) return s;
  return CheckTimes("weights.host_update", on_host);
}

void ReadBytes(JsonReader& reader, const Json& json, const char* key,
               Bytes* out) {
  int64_t count = 0;
  reader.Integer(json, key, 0, JsonReader::kMax, &count);
  *out = Bytes{count};
}

void ReadSizes(JsonReader& reader, const Json& json, const char* key,
               std::vector<Bytes>* out) {
  std::vector<int64_t> counts;
  reader.Integers(json, key, &counts);
  for (int64_t count : counts) out->push_back(Bytes{count});
}

ChainOption ReadOption(JsonReader& reader, const Json& json) {
  ChainOption option;
  reader.Members(json, {"stage", "fw", "bw", "xb", "ft", "bt"});
  reader.Int(json, "stage", 0, kMostStages, &option.stage);
  reader.Number(json, "fw", 0, &option.fw);
  reader.Number(json, "bw", 0, &option.bw);
  ReadBytes(reader, json, "xb", &option.xb);
  ReadBytes(reader, json, "ft", &option.ft);
  ReadBytes(reader, json, "bt", &option.bt);
  return option;
}

ChainWeight ReadWeight(JsonReader& reader, const Json& json) {
  ChainWeight weight;
  reader.Members(json,
                 {"stages", "bytes", "grad", "state", "update", "host_update"});
  reader.Ints(json, "stages", 0, kMostStages, &weight.stages);
  ReadBytes(reader, json, "bytes", &weight.bytes);
  ReadBytes(reader, json, "grad", &weight.grad);
  ReadBytes(reader, json, "state", &weight.state);
  if (reader.Has(json, "update")) {
    reader.Number(json, "update", 0, &weight.update);
  }
  if (reader.Has(json, "host_update")) {
    reader.Number(json, "host_update", 0, &weight.host_update);
  }
  return weight;
}

void ReadExtras(JsonReader& reader, const Json& json, Chain* chain) {
  if (reader.Has(json, "bandwidth")) {
    reader.Object(json, "bandwidth", [&](const Json& bandwidth) {
      reader.Members(bandwidth, {"d2h", "h2d"});
      reader.Number(bandwidth, "d2h", 0, &chain->d2h);
      reader.Number(bandwidth, "h2d", 0, &chain->h2d);
    });
  }
  if (reader.Has(json, "host")) ReadBytes(reader, json, "host", &chain->host);
  if (reader.Has(json, "options")) {
    reader.Each(json, "options", [&](const Json& element) {
      chain->options.push_back(ReadOption(reader, element));
    });
  }
  if (reader.Has(json, "weights")) {
    reader.Each(json, "weights", [&](const Json& element) {
      chain->weights.push_back(ReadWeight(reader, element));
    });
  }
}

void ReadChain(JsonReader& reader, const Json& json, Chain* chain) {
  reader.Members(json, {"kind", "fw", "bw", "x", "xb", "ft", "bt", "bandwidth",
                        "host", "options", "weights"});
  std::string kind;
  reader.String(json, "kind", &kind);
  if (kind != "chain") {
    reader.Fail("kind", absl::StrCat("expected \"chain\", got \"", kind, "\""));
  }
  reader.Numbers(json, "fw", &chain->fw);
  reader.Numbers(json, "bw", &chain->bw);
  ReadSizes(reader, json, "x", &chain->x);
  ReadSizes(reader, json, "xb", &chain->xb);
  ReadSizes(reader, json, "ft", &chain->ft);
  ReadSizes(reader, json, "bt", &chain->bt);
  ReadExtras(reader, json, chain);
}

Json Sizes(const std::vector<Bytes>& list) {
  Json json = Json::array();
  for (Bytes bytes : list) json.push_back(Count(bytes));
  return json;
}

}  // namespace

std::vector<ChainOption> SavingWays(const Chain& chain, int i) {
  std::vector<ChainOption> ways = {
      {i, chain.fw[i], chain.bw[i], chain.xb[i + 1], chain.ft[i], chain.bt[i]}};
  for (const ChainOption& option : chain.options) {
    if (option.stage == i) ways.push_back(option);
  }
  return ways;
}

absl::Status CheckChain(const Chain& chain) {
  if (auto s = CheckLengths(chain); !s.ok()) return s;
  if (auto s = CheckTimes("fw", chain.fw); !s.ok()) return s;
  if (auto s = CheckTimes("bw", chain.bw); !s.ok()) return s;
  for (const auto& [name, list] :
       {std::pair{"x", &chain.x}, std::pair{"xb", &chain.xb},
        std::pair{"ft", &chain.ft}, std::pair{"bt", &chain.bt}}) {
    if (auto s = CheckBytes(name, *list); !s.ok()) return s;
  }
  if (chain.xb[0] != chain.x[0]) {
    return Bad("xb[0]: expected x[0] = ", Count(chain.x[0]), ", got ",
               Count(chain.xb[0]));
  }
  for (size_t i = 1; i < chain.x.size(); ++i) {
    if (chain.xb[i] >= chain.x[i]) continue;
    return Bad("xb[", i, "]: expected at least the output x[", i,
               "] = ", Count(chain.x[i]), ", got ", Count(chain.xb[i]));
  }
  for (double bandwidth : {chain.d2h, chain.h2d}) {
    if (bandwidth >= 0 && std::isfinite(bandwidth)) continue;
    return Bad("bandwidth: expected sizes per unit of time, got ", bandwidth);
  }
  if (auto s = CheckOptions(chain); !s.ok()) return s;
  return CheckWeights(chain);
}

std::string ChainToJson(const Chain& chain) {
  Json json = {{"kind", "chain"},       {"fw", chain.fw},
               {"bw", chain.bw},        {"x", Sizes(chain.x)},
               {"xb", Sizes(chain.xb)}, {"ft", Sizes(chain.ft)},
               {"bt", Sizes(chain.bt)}};
  if (chain.d2h > 0 || chain.h2d > 0) {
    json["bandwidth"] = {{"d2h", chain.d2h}, {"h2d", chain.h2d}};
  }
  if (chain.host >= Bytes{}) json["host"] = Count(chain.host);
  for (const ChainOption& option : chain.options) {
    json["options"].push_back({{"stage", option.stage},
                               {"fw", option.fw},
                               {"bw", option.bw},
                               {"xb", Count(option.xb)},
                               {"ft", Count(option.ft)},
                               {"bt", Count(option.bt)}});
  }
  for (const ChainWeight& weight : chain.weights) {
    json["weights"].push_back({{"stages", weight.stages},
                               {"bytes", Count(weight.bytes)},
                               {"grad", Count(weight.grad)},
                               {"state", Count(weight.state)},
                               {"update", weight.update}});
    if (weight.host_update < 0) continue;
    json["weights"].back()["host_update"] = weight.host_update;
  }
  return json.dump();
}

absl::StatusOr<Chain> ChainFromJson(absl::string_view text,
                                    absl::string_view origin) {
  absl::StatusOr<Json> json = ParseJson(text, origin);
  if (!json.ok()) return json.status();
  JsonReader reader(origin);
  Chain chain;
  ReadChain(reader, *json, &chain);
  if (!reader.ok()) return reader.status();
  if (absl::Status status = CheckChain(chain); !status.ok()) {
    return Bad(origin, ": ", status.message());
  }
  return chain;
}

Time BaseTime(const Chain& chain) {
  Time sum = 0;
  for (Time time : chain.fw) sum += time;
  for (Time time : chain.bw) sum += time;
  return sum;
}

Time LeastTime(const Chain& chain) {
  Time sum = chain.bw.back();
  for (int i = 0; i < Stages(chain); ++i) {
    Time least = chain.fw[i] + chain.bw[i];
    for (const ChainOption& way : SavingWays(chain, i)) {
      least = std::min(least, way.fw + way.bw);
    }
    sum += least;
  }
  return sum;
}

}  // namespace ebbtide
