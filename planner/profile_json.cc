// The text form of a profile.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "planner/json_reader.h"
#include "planner/profile.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

void ReadBytes(JsonReader& reader, const Json& object, const char* key,
               Bytes* out) {
  int64_t count = 0;
  reader.Integer(object, key, 0, JsonReader::kMax, &count);
  *out = Bytes{count};
}

// A missing spread is unknown.
void ReadSpread(JsonReader& reader, const Json& json, TimeSpread* spread) {
  if (!reader.Has(json, "spread")) return;
  reader.Object(json, "spread", [&](const Json& member) {
    reader.Members(member, {"steps", "median", "quartiles", "most"});
    reader.Int(member, "steps", 1, std::numeric_limits<int>::max(),
               &spread->steps);
    reader.Number(member, "median", 0, &spread->median);
    reader.Number(member, "quartiles", 0, &spread->quartiles);
    reader.Number(member, "most", 0, &spread->most);
  });
}

void AddSpread(const TimeSpread& spread, Json* json) {
  if (spread.steps == 0) return;
  (*json)["spread"] = {{"steps", spread.steps},
                       {"median", spread.median},
                       {"quartiles", spread.quartiles},
                       {"most", spread.most}};
}

// Missing where the host is the device.
void ReadHostTime(JsonReader& reader, const Json& json, Time* time) {
  if (reader.Has(json, "host_time")) {
    reader.Number(json, "host_time", 0, time);
  }
}

void AddHostTime(Time time, Json* json) {
  if (time > 0) (*json)["host_time"] = time;
}

void ReadOrigin(JsonReader& reader, const Json& json, Origin* origin) {
  if (!reader.Has(json, "measured")) return;
  reader.Object(json, "measured", [&](const Json& member) {
    reader.Members(member,
                   {"device", "megahertz", "versions", "clock", "date"});
    reader.String(member, "device", &origin->device);
    reader.Number(member, "megahertz", 0, &origin->megahertz);
    reader.String(member, "versions", &origin->versions);
    reader.String(member, "clock", &origin->clock);
    reader.String(member, "date", &origin->date);
  });
}

void AddOrigin(const Origin& origin, Json* json) {
  if (origin == Origin()) return;
  (*json)["measured"] = {{"device", origin.device},
                         {"megahertz", origin.megahertz},
                         {"versions", origin.versions},
                         {"clock", origin.clock},
                         {"date", origin.date}};
}

Value ReadValue(JsonReader& reader, const Json& json, int64_t ops) {
  Value value;
  reader.Members(json, {"name", "bytes", "op", "saved", "retainable", "movable",
                        "released"});
  reader.String(json, "name", &value.name);
  ReadBytes(reader, json, "bytes", &value.bytes);
  reader.Int(json, "op", 0, ops - 1, &value.op);
  reader.Bool(json, "saved", &value.saved);
  reader.Bool(json, "retainable", &value.retainable);
  reader.Bool(json, "movable", &value.movable);
  reader.Int(json, "released", 0, std::numeric_limits<int>::max(),
             &value.released);
  return value;
}

Op ReadOp(JsonReader& reader, const Json& json, int64_t values) {
  Op op;
  reader.Members(json, {"name", "inputs", "outputs", "time", "other", "scratch",
                        "replayable", "spread", "host_time"});
  reader.String(json, "name", &op.name);
  reader.Ints(json, "inputs", 0, values - 1, &op.inputs);
  reader.Ints(json, "outputs", 0, values - 1, &op.outputs);
  reader.Number(json, "time", 0, &op.time);
  ReadSpread(reader, json, &op.spread);
  ReadHostTime(reader, json, &op.host_time);
  ReadBytes(reader, json, "other", &op.other);
  ReadBytes(reader, json, "scratch", &op.scratch);
  reader.Bool(json, "replayable", &op.replayable);
  return op;
}

Stage ReadStage(JsonReader& reader, const Json& json, int64_t values) {
  Stage stage;
  reader.Members(json, {"name", "needs", "time", "before", "during", "spread",
                        "host_time"});
  reader.String(json, "name", &stage.name);
  reader.Ints(json, "needs", 0, values - 1, &stage.needs);
  reader.Number(json, "time", 0, &stage.time);
  ReadSpread(reader, json, &stage.spread);
  ReadHostTime(reader, json, &stage.host_time);
  ReadBytes(reader, json, "before", &stage.before);
  ReadBytes(reader, json, "during", &stage.during);
  return stage;
}

// Length of the array `key`, 0 where there is none (reading it reports that).
int64_t Length(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_array() ? it->size() : 0;
}

void ReadProfile(JsonReader& reader, const Json& json, Profile* profile) {
  reader.Members(json, {"kind", "version", "values", "ops", "stages", "tail",
                        "tail_time", "d2h", "h2d", "host", "measured"});
  std::string kind;
  reader.String(json, "kind", &kind);
  if (kind != "profile") {
    reader.Fail("kind",
                absl::StrCat("expected \"profile\", got \"", kind, "\""));
  }
  int version = 0;
  reader.Int(json, "version", kVersion, kVersion, &version);
  if (!reader.ok()) return;
  const int64_t values = Length(json, "values");
  const int64_t ops = Length(json, "ops");
  reader.Each(json, "values", [&](const Json& element) {
    profile->values.push_back(ReadValue(reader, element, ops));
  });
  reader.Each(json, "ops", [&](const Json& element) {
    profile->ops.push_back(ReadOp(reader, element, values));
  });
  reader.Each(json, "stages", [&](const Json& element) {
    profile->stages.push_back(ReadStage(reader, element, values));
  });
  ReadBytes(reader, json, "tail", &profile->tail);
  reader.Number(json, "tail_time", 0, &profile->tail_time);
  reader.Number(json, "d2h", 0, &profile->d2h);
  reader.Number(json, "h2d", 0, &profile->h2d);
  int64_t host = -1;
  reader.Integer(json, "host", -1, JsonReader::kMax, &host);
  profile->host = Bytes{host};
  ReadOrigin(reader, json, &profile->origin);
}

}  // namespace

std::string ProfileToJson(const Profile& profile) {
  Json values = Json::array();
  for (const Value& value : profile.values) {
    values.push_back({{"name", value.name},
                      {"bytes", Count(value.bytes)},
                      {"op", value.op},
                      {"saved", value.saved},
                      {"retainable", value.retainable},
                      {"movable", value.movable},
                      {"released", value.released}});
  }
  Json ops = Json::array();
  for (const Op& op : profile.ops) {
    ops.push_back({{"name", op.name},
                   {"inputs", op.inputs},
                   {"outputs", op.outputs},
                   {"time", op.time},
                   {"other", Count(op.other)},
                   {"scratch", Count(op.scratch)},
                   {"replayable", op.replayable}});
    AddSpread(op.spread, &ops.back());
    AddHostTime(op.host_time, &ops.back());
  }
  Json stages = Json::array();
  for (const Stage& stage : profile.stages) {
    stages.push_back({{"name", stage.name},
                      {"needs", stage.needs},
                      {"time", stage.time},
                      {"before", Count(stage.before)},
                      {"during", Count(stage.during)}});
    AddSpread(stage.spread, &stages.back());
    AddHostTime(stage.host_time, &stages.back());
  }
  Json json = {{"kind", "profile"},
               {"version", kVersion},
               {"values", std::move(values)},
               {"ops", std::move(ops)},
               {"stages", std::move(stages)},
               {"tail", Count(profile.tail)},
               {"tail_time", profile.tail_time},
               {"d2h", profile.d2h},
               {"h2d", profile.h2d},
               {"host", std::max<int64_t>(-1, Count(profile.host))}};
  AddOrigin(profile.origin, &json);
  // Names come from programs and may be no UTF-8; they are for people only.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Profile> ProfileFromJson(absl::string_view text,
                                        absl::string_view origin) {
  absl::StatusOr<Json> json = ParseJson(text, origin);
  if (!json.ok()) return json.status();
  JsonReader reader(origin);
  Profile profile;
  ReadProfile(reader, *json, &profile);
  if (!reader.ok()) return reader.status();
  if (absl::Status status = CheckProfile(profile); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": ", status.message()));
  }
  return profile;
}

}  // namespace ebbtide
