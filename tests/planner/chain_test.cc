#include "planner/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/chains.h"

namespace ebbtide {
namespace {

using ::testing::HasSubstr;

template <class Edit>
std::string MessageAfter(Edit edit) {
  Chain chain = RandomChain(1, 3, true);
  auto json = nlohmann::json::parse(ChainToJson(chain));
  edit(json);
  const auto back = ChainFromJson(json.dump(), "net.json");
  EXPECT_FALSE(back.ok());
  return std::string(back.status().message());
}

TEST(ChainTest, TextReadsBackBitForBit) {
  Chain chain = RandomChain(7, 5, true);
  chain.fw[0] = 0.1 + 0.2;
  chain.d2h = 1.0 / 3;
  chain.h2d = 0.5;
  chain.host = Bytes{12};
  chain.weights.push_back({{0, 2}, Bytes{8}, Bytes{8}, Bytes{16}});
  const auto back = ChainFromJson(ChainToJson(chain), "net.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(ChainToJson(*back), ChainToJson(chain));
  EXPECT_EQ(back->fw[0], chain.fw[0]);
  EXPECT_EQ(back->d2h, chain.d2h);
}

TEST(ChainTest, ErrorsNameTheFileThePlaceAndWhatWasExpected) {
  EXPECT_EQ(MessageAfter([](auto& j) { j["bw"].erase(0); }),
            "net.json: bw: expected 4 elements, got 3");
  EXPECT_EQ(MessageAfter([](auto& j) { j["x"][2] = -3; }),
            "net.json: x[2]: expected a whole number of at least 0, got -3");
  EXPECT_EQ(MessageAfter([](auto& j) { j["x"][2] = "2"; }),
            "net.json: x[2]: expected a whole number of at least 0, got "
            "\"2\"");
  EXPECT_EQ(MessageAfter([](auto& j) { j["fw"][0] = nullptr; }),
            "net.json: fw[0]: expected a number of at least 0, got null");
  EXPECT_THAT(MessageAfter([](auto& j) { j["xb"][0] = 1000; }),
              HasSubstr("net.json: xb[0]: expected x[0]"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["x"][1] = 1000; }),
              HasSubstr("net.json: xb[1]: expected at least the output x[1]"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["fw"] = nlohmann::json::array(); }),
              HasSubstr("net.json: fw: expected 1 to"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["bandwith"] = 1; }),
              HasSubstr("net.json: unknown member \"bandwith\""));
  EXPECT_THAT(
      MessageAfter([](auto& j) { j["options"][0]["stage"] = 3; }),
      HasSubstr("net.json: options[0].stage: expected a value below 3"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["options"][0].erase("bt"); }),
              HasSubstr("net.json: options[0].bt: expected this member"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["x"][3] = int64_t{1} << 60; }),
              HasSubstr("net.json: x[3]: expected a size from 0 to"));
  const auto after_weight = [](const char* text) {
    return MessageAfter(
        [&](auto& j) { j["weights"] = {nlohmann::json::parse(text)}; });
  };
  EXPECT_THAT(after_weight(R"({"stages":[],"bytes":1,"grad":1,"state":1})"),
              HasSubstr("net.json: weights[0].stages: expected at least one"));
  EXPECT_THAT(after_weight(R"({"stages":[0],"bytes":1,"grad":1,
                               "state":2305843009213693952})"),
              HasSubstr("net.json: weights.state[0]: expected a size from 0"));
  EXPECT_THAT(after_weight(R"({"stages":[0],"bytes":1,"grad":1,"state":1,
                               "update":1e300})"),
              HasSubstr("net.json: weights.update[0]: expected a time"));
}

TEST(ChainTest, EveryTruncatedTextIsRefused) {
  const std::string text = ChainToJson(RandomChain(2, 3));
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(ChainFromJson(text.substr(0, n), "net.json").ok()) << n;
  }
}

}  // namespace
}  // namespace ebbtide
