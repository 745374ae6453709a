#include "planner/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// The message for ThreeOps() after `edit` was done to its text form.
template <class Edit>
std::string MessageAfter(Edit edit) {
  auto json = nlohmann::json::parse(ProfileToJson(ThreeOps()));
  edit(json);
  const auto profile = ProfileFromJson(json.dump(), "step.json");
  EXPECT_FALSE(profile.ok());
  return MessageOf(profile.status());
}

TEST(ProfileTest, AValidProfileIsAccepted) {
  EXPECT_EQ(CheckProfile(ThreeOps()), absl::OkStatus());
  for (uint32_t seed = 0; seed < 200; ++seed) {
    EXPECT_EQ(CheckProfile(RandomProfile(seed, 6)), absl::OkStatus()) << seed;
  }
}

TEST(ProfileTest, TextReadsBackBitForBit) {
  Profile p = RandomProfile(3, 8, true);
  p.ops[0].time = 0.1 + 0.2;
  p.d2h = 1.0 / 3.0;
  p.values[0].bytes = Bytes{(int64_t{1} << 59) + 1};
  const std::string text = ProfileToJson(p);
  const auto back = ProfileFromJson(text, "step.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(ProfileToJson(*back), text);
  EXPECT_EQ(back->ops[0].time, p.ops[0].time);
  EXPECT_EQ(back->d2h, p.d2h);
  EXPECT_EQ(back->values[0].bytes, p.values[0].bytes);
}

TEST(ProfileTest, SpreadsAndTheOriginReadBackAndMayBeMissing) {
  Profile p = ThreeOps();
  EXPECT_EQ(ProfileToJson(p).find("spread"), std::string::npos);
  EXPECT_EQ(ProfileToJson(p).find("measured"), std::string::npos);
  p.ops[1].spread = {.steps = 9, .median = 11, .quartiles = 0.5, .most = 40};
  p.stages[2].spread = {.steps = 8, .median = 21, .quartiles = 2, .most = 22};
  p.origin = {.device = "a device",
              .megahertz = 1500,
              .versions = "ebbtide 1",
              .clock = "CUPTI",
              .date = "2026-01-31T23:59:59Z"};
  const auto back = ProfileFromJson(ProfileToJson(p), "step.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(back->ops[0].spread, TimeSpread());
  EXPECT_EQ(back->ops[1].spread, p.ops[1].spread);
  EXPECT_EQ(back->stages[2].spread, p.stages[2].spread);
  EXPECT_EQ(back->origin, p.origin);
  EXPECT_EQ(ProfileToJson(*back), ProfileToJson(p));
}

TEST(ProfileTest, HostTimesReadBackAndMayBeMissing) {
  Profile p = ThreeOps();
  EXPECT_EQ(ProfileToJson(p).find("host_time"), std::string::npos);
  p.ops[1].host_time = 0.1;
  p.stages[2].host_time = 7;
  const auto back = ProfileFromJson(ProfileToJson(p), "step.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(back->ops[0].host_time, 0);
  EXPECT_EQ(back->ops[1].host_time, 0.1);
  EXPECT_EQ(back->stages[2].host_time, 7);
}

TEST(ProfileTest, EveryTruncatedTextIsRefused) {
  const std::string text = ProfileToJson(ThreeOps());
  for (size_t n = 0; n < text.size(); ++n) {
    const auto profile = ProfileFromJson(text.substr(0, n), "step.json");
    ASSERT_FALSE(profile.ok()) << n;
    EXPECT_THAT(MessageOf(profile.status()),
                HasSubstr("step.json: expected a JSON document"));
  }
}

TEST(ProfileTest, ErrorsNameTheFileThePlaceAndWhatWasExpected) {
  EXPECT_EQ(MessageAfter([](auto& j) { j["ops"][2]["inputs"][0] = 40; }),
            "step.json: ops[2].inputs[0]: expected a value below 3, got 40");
  EXPECT_EQ(MessageAfter([](auto& j) { j["values"][1]["bytes"] = -8; }),
            "step.json: values[1].bytes: expected a whole number of at least "
            "0, got -8");
  EXPECT_EQ(MessageAfter([](auto& j) { j["stages"][0].erase("time"); }),
            "step.json: stages[0].time: expected this member, it is missing");
  EXPECT_EQ(MessageAfter([](auto& j) { j["version"] = 2; }),
            "step.json: version: expected a whole number from 1 to 1, got 2");
  EXPECT_EQ(MessageAfter([](auto& j) { j["kind"] = "chain"; }),
            "step.json: kind: expected \"profile\", got \"chain\"");
  EXPECT_THAT(MessageAfter([](auto& j) { j["ops"][1]["tiem"] = 1; }),
              HasSubstr("step.json: ops[1]: unknown member \"tiem\""));
  EXPECT_THAT(MessageAfter([](auto& j) { j["values"][0]["saved"] = 1; }),
              HasSubstr("values[0].saved: expected true or false, got 1"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["ops"] = 3; }),
              HasSubstr("step.json: values[0].op: expected a value below 0"));
  EXPECT_THAT(MessageAfter([](auto& j) { j = 3; }),
              HasSubstr("step.json: expected an object, got 3"));
}

TEST(ProfileTest, SpreadsAreWholeOrNotThere) {
  const auto spread = [](const char* key, double value) {
    return [=](auto& j) {
      j["ops"][1]["spread"] = {
          {"steps", 3}, {"median", 1}, {"quartiles", 1}, {"most", 1}};
      j["ops"][1]["spread"][key] = value;
    };
  };
  EXPECT_THAT(MessageAfter(spread("median", -1)),
              HasSubstr("ops[1].spread.median: expected a number of at least"));
  EXPECT_THAT(MessageAfter(spread("most", 1e300)),
              HasSubstr("ops[1].spread.most: expected a time from 0 to"));
  EXPECT_THAT(MessageAfter(spread("mean", 1)),
              HasSubstr("ops[1].spread: unknown member \"mean\""));
  EXPECT_THAT(MessageAfter([](auto& j) {
                j["stages"][0]["spread"] = {{"steps", 0}};
              }),
              HasSubstr("stages[0].spread.steps: expected a whole number"));
  EXPECT_THAT(MessageAfter([](auto& j) {
                j["measured"] = {{"date", ""}};
              }),
              HasSubstr("measured.device: expected this member"));
}

TEST(ProfileTest, NumbersThatAreNoSizesAreRefused) {
  EXPECT_THAT(MessageAfter([](auto& j) { j["ops"][0]["time"] = nullptr; }),
              HasSubstr("ops[0].time: expected a number of at least 0"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["values"][0]["bytes"] = 1.5; }),
              HasSubstr("values[0].bytes: expected a whole number"));
  EXPECT_THAT(MessageAfter([](auto& j) {
                j["values"][0]["bytes"] = std::numeric_limits<uint64_t>::max();
              }),
              HasSubstr("values[0].bytes: expected a whole number"));
  EXPECT_THAT(MessageAfter([](auto& j) {
                j["tail"] = std::numeric_limits<int64_t>::max();
              }),
              HasSubstr("step.json: tail: expected bytes from 0 to"));
  const auto huge = ProfileFromJson(R"({"kind":1e999})", "step.json");
  EXPECT_THAT(MessageOf(huge.status()), HasSubstr("step.json: expected"));
}

TEST(ProfileTest, CheckNamesThePlace) {
  const auto check = [](auto edit) {
    Profile p = ThreeOps();
    edit(p);
    return MessageOf(CheckProfile(p));
  };
  EXPECT_THAT(check([](Profile& p) { p.ops[0].time = -1; }),
              HasSubstr("ops[0].time"));
  EXPECT_THAT(check([](Profile& p) { p.ops[1].time = std::nan(""); }),
              HasSubstr("ops[1].time"));
  EXPECT_THAT(check([](Profile& p) { p.values[2].bytes = Bytes{-1}; }),
              HasSubstr("values[2].bytes"));
  EXPECT_THAT(check([](Profile& p) { p.values[2].op = 1; }),
              HasSubstr("ops[2].outputs[0]: expected a value whose op is 2"));
  EXPECT_THAT(check([](Profile& p) { p.ops[1].inputs = {2}; }),
              HasSubstr("ops[1].inputs[0]: expected a value of an op before"));
  EXPECT_THAT(check([](Profile& p) { p.values[0].released = 0; }),
              HasSubstr("ops[1].inputs[0]: expected a value held until op 1"));
  EXPECT_THAT(check([](Profile& p) { p.values[1].released = 0; }),
              HasSubstr("ops[2].inputs[0]"));
  EXPECT_THAT(check([](Profile& p) { p.values[2].released = 9; }),
              HasSubstr("values[2].released: expected an instant from 2 to 6"));
  EXPECT_THAT(check([](Profile& p) { p.stages[0].before = Bytes{2}; }),
              HasSubstr("stages[0].during: expected at least `before`, 2"));
  EXPECT_THAT(check([](Profile& p) { p.h2d = std::nan(""); }),
              HasSubstr("h2d"));
  EXPECT_THAT(check([](Profile& p) {
                p.values[0].bytes = p.values[1].bytes =
                    Bytes{(int64_t{1} << 60) - 1};
              }),
              HasSubstr("values[1].bytes: expected a sum"));
}

TEST(ProfileTest, UnmanagedPeakHoldsSavedValuesUntilTheirLastStage) {
  // a + b + c + other at the end of the forward pass.
  EXPECT_EQ(UnmanagedPeak(ThreeOps()), Bytes{4 + 8 + 2 + 1});
  Profile p = ThreeOps();
  p.tail = Bytes{14};
  p.values[2].released = 6;
  EXPECT_EQ(UnmanagedPeak(p), Bytes{14 + 2});
  EXPECT_EQ(BaseTime(p), 90);
}

TEST(ProfileTest, AnUnmanagedStepTakesAsLongAsTheSlowerOfHostAndDevice) {
  Profile p = ThreeOps();
  EXPECT_EQ(UnmanagedTime(p), BaseTime(p));
  for (Op& op : p.ops) op.host_time = 5;
  // The device waits for the first op alone: later ones are issued in time.
  EXPECT_EQ(UnmanagedTime(p), 95);
  p.stages.back().host_time = 100;
  EXPECT_EQ(UnmanagedTime(p), 15 + 100 + p.stages.back().time);
}

TEST(ProfileTest, HostTimesAreCheckedAndCountInTheSum) {
  Profile p = ThreeOps();
  p.ops[2].host_time = -1;
  EXPECT_THAT(std::string(CheckProfile(p).message()),
              HasSubstr("ops[2].host_time: expected a time"));
  p.ops[2].host_time = 0;
  p.stages[1].host_time = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(std::string(CheckProfile(p).message()),
              HasSubstr("stages[1].host_time: expected a time"));
}

}  // namespace
}  // namespace ebbtide
