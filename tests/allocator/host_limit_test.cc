#include "allocator/host_limit.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::map<std::string, std::string> files;

std::optional<std::string> Read(const std::string& path) {
  const auto file = files.find(path);
  if (file == files.end()) return std::nullopt;
  return file->second;
}

constexpr HostSystem kFake = {Read};

class HostLimitTest : public testing::Test {
 protected:
  // 64 GiB available, of which 56 may be had.
  void SetUp() override {
    files = {{"/proc/meminfo",
              "MemTotal:  131072000 kB\nMemFree:  1000 kB\n"
              "MemAvailable:   67108864 kB\n"}};
  }

  static HostLimit Limit(std::optional<Bytes> asked = {}) {
    return PinnedLimit(asked, kFake);
  }
};

TEST_F(HostLimitTest, AnEighthOfFreeRamStaysFree) {
  EXPECT_EQ(Limit().bytes, Bytes{56 * kGiB});
  EXPECT_EQ(Limit().maker, "free RAM");
}

TEST_F(HostLimitTest, WhatWasAskedForIsTheMost) {
  const HostLimit limit = Limit(Bytes{3 * kGiB});
  EXPECT_EQ(limit.bytes, Bytes{3 * kGiB});
  EXPECT_EQ(limit.maker, "EBBTIDE_HOST_BUDGET");
  EXPECT_EQ(Limit(Bytes{90 * kGiB}).bytes, Bytes{56 * kGiB});
}

void AddVersion2(const std::string& group, const std::string& limit,
                 int64_t usage, int64_t inactive) {
  const std::string folder = "/sys/fs/cgroup" + group;
  files[folder + "/memory.max"] = limit + "\n";
  files[folder + "/memory.current"] = std::to_string(usage) + "\n";
  files[folder + "/memory.stat"] =
      "anon 5\nactive_file 7\ninactive_file " + std::to_string(inactive) + "\n";
}

TEST_F(HostLimitTest, ACgroupLeavesItsLimitLessWhatCannotGo) {
  files["/proc/self/cgroup"] = "0::/\n";
  AddVersion2("", std::to_string(16 * kGiB), 10 * kGiB, 2 * kGiB);
  EXPECT_EQ(Limit().bytes, Bytes{7 * kGiB});  // 8 GiB less an eighth
  EXPECT_EQ(Limit().maker, "the memory cgroup");
}

TEST_F(HostLimitTest, TheTightestCgroupAroundTheProcessCounts) {
  files["/proc/self/cgroup"] = "0::/job/step/task\n";
  AddVersion2("/job/step/task", "max", kGiB, 0);
  AddVersion2("/job/step", std::to_string(32 * kGiB), kGiB, 0);
  AddVersion2("/job", std::to_string(20 * kGiB), 12 * kGiB, 0);
  EXPECT_EQ(Limit().bytes, Bytes{7 * kGiB});
}

TEST_F(HostLimitTest, InAContainerTheGroupLiesAtTheRoot) {
  files["/proc/self/cgroup"] = "0::/docker/0123abcd\n";
  AddVersion2("", std::to_string(8 * kGiB), 0, 0);
  EXPECT_EQ(Limit().bytes, Bytes{7 * kGiB});
}

TEST_F(HostLimitTest, VersionOneCountsTheSame) {
  files["/proc/self/cgroup"] =
      "9:name=systemd:/\n4:cpuset,memory:/job\n1:cpu:/memory\n0::/\n";
  const std::string folder = "/sys/fs/cgroup/memory/job";
  files[folder + "/memory.limit_in_bytes"] = std::to_string(16 * kGiB) + "\n";
  files[folder + "/memory.usage_in_bytes"] = std::to_string(10 * kGiB) + "\n";
  files[folder + "/memory.stat"] =
      "inactive_file 1\ntotal_inactive_file " + std::to_string(2 * kGiB);
  // The root's: no limit, as version 1 writes it.
  files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] =
      "9223372036854771712\n";
  files["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = "1000\n";
  EXPECT_EQ(Limit().bytes, Bytes{7 * kGiB});
  EXPECT_EQ(Limit().maker, "the memory cgroup");
}

TEST_F(HostLimitTest, ACgroupOverItsLimitLeavesNothing) {
  files["/proc/self/cgroup"] = "0::/\n";
  AddVersion2("", std::to_string(4 * kGiB), 5 * kGiB, 0);
  EXPECT_EQ(Limit().bytes, Bytes{0});
}

TEST_F(HostLimitTest, WithoutMeminfoOnlyWhatWasAskedForIsGranted) {
  files.clear();
  EXPECT_EQ(Limit().bytes, Bytes{0});
  EXPECT_EQ(Limit(Bytes{kGiB}).bytes, Bytes{kGiB});
}

TEST_F(HostLimitTest, ThisMachineHasALimit) {
  const HostLimit limit = PinnedLimit({});
  EXPECT_GT(limit.bytes, Bytes{0}) << limit.maker;
  EXPECT_LT(limit.bytes, Bytes{int64_t{1} << 46}) << limit.maker;
}

}  // namespace
}  // namespace ebbtide
