// Chains for the planner's tests: those of tests/data/chains.json, and random
// small ones.
#ifndef EBBTIDE_TESTS_PLANNER_CHAINS_H_
#define EBBTIDE_TESTS_PLANNER_CHAINS_H_

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "planner/chain.h"

namespace ebbtide {

struct KnownTime {
  std::string name;  // name of the chain
  Chain chain;
  Bytes budget{};
  bool feasible = false;
  Time time = 0;
};

// The results in tests/data/chains.json for `solver`.
inline std::vector<KnownTime> KnownTimes(const std::string& solver) {
  std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/chains.json");
  const auto json = nlohmann::json::parse(file);
  std::vector<KnownTime> known;
  for (const auto& instance : json["instances"]) {
    const auto chain = ChainFromJson(instance["chain"].dump(), "chains.json");
    EXPECT_TRUE(chain.ok()) << chain.status();
    for (const auto& expected : instance["expected"]) {
      if (!expected["time"].contains(solver)) continue;
      const auto& time = expected["time"][solver];
      known.push_back(
          {instance["name"], *chain, Bytes{expected["budget"].get<int64_t>()},
           !time.is_null(), time.is_null() ? 0 : time.get<double>()});
    }
  }
  return known;
}

// A chain whose file has the name `name` in tests/data/chains.json.
inline Chain KnownChain(const std::string& name) {
  for (const KnownTime& known : KnownTimes("rotor")) {
    if (known.name == name) return known.chain;
  }
  ADD_FAILURE() << "no chain " << name;
  return {};
}

// Without zeros: no input without a size, no forward without a time. Drawn in
// the order of the study that tests/planner/chain_table_test.cc compares with.
inline Chain SmallChain(std::mt19937& rng, int stages) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  Chain c;
  for (int i = 0; i < stages; ++i) {
    c.fw.push_back(pick(1, 10));
    c.bw.push_back(pick(1, 10));
    c.ft.push_back(Bytes{pick(0, 3)});
    c.bt.push_back(Bytes{pick(0, 4)});
  }
  c.bw.push_back(0);
  c.bt.push_back(Bytes{0});
  for (int i = 0; i <= stages; ++i) c.x.push_back(Bytes{pick(1, 4)});
  c.xb.push_back(c.x[0]);
  for (int i = 1; i <= stages; ++i) {
    c.xb.push_back(c.x[i] + Bytes{pick(0, 6)});
  }
  return c;
}

inline Chain RandomChain(uint32_t seed, int stages, bool options = false) {
  std::mt19937 rng(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  Chain c;
  for (int i = 0; i <= stages; ++i) {
    c.x.push_back(Bytes{pick(0, 4)});
    c.xb.push_back(c.x[i] + Bytes{i == 0 ? 0 : pick(0, 6)});
    c.bw.push_back(pick(0, 10));
    c.bt.push_back(Bytes{pick(0, 4)});
    if (i == stages) break;
    c.fw.push_back(pick(0, 10));
    c.ft.push_back(Bytes{pick(0, 3)});
  }
  for (int i = 0; options && i < stages; ++i) {
    if (pick(0, 1) == 0) continue;
    const Time fw = c.fw[i] + pick(0, 3);
    c.options.push_back({i, fw, c.bw[i] + pick(0, 3),
                         c.x[i + 1] + Bytes{pick(0, 3)}, Bytes{pick(0, 3)},
                         Bytes{pick(0, 3)}});
  }
  return c;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_CHAINS_H_
