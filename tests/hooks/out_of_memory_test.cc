#include "hooks/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

OutOfMemory Example() {
  OutOfMemory what = {.request = Bytes{3 << 20},
                      .device = "cpu",
                      .where = "aten::tanh",
                      .step = 7,
                      .state = "watch",
                      .budget = Bytes{8 << 20},
                      .live = Bytes{6 << 20},
                      .helps = {"a smaller batch"}};
  what.live_by_kind[static_cast<int>(Kind::kSaved)] = Bytes{4 << 20};
  what.largest = {{Bytes{2 << 20}, Kind::kSaved, "aten::mm", "saved"},
                  {Bytes{1 << 20}, Kind::kOther, "", ""}};
  return what;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(OutOfMemoryTest, TheTextSaysAllOfIt) {
  EXPECT_EQ(OutOfMemoryText(Example()),
            "ebbtide: out of memory on cpu: 3.00 MiB did not fit in "
            "aten::tanh, in step 7 (watch)\n"
            "6.00 MiB were alive, the budget is 8.00 MiB\n\n"
            "alive, by kind:\n"
            "    4.00 MiB  saved\n\n"
            "the largest that were alive:\n"
            "    2.00 MiB  saved       aten::mm, saved\n"
            "    1.00 MiB  other       of no recorded op\n\n"
            "floor: not known; it takes a step that was recorded to its end\n\n"
            "what would have helped:\n"
            "- a smaller batch\n");
}

TEST(OutOfMemoryTest, WhatNobodyKnowsIsLeftOut) {
  OutOfMemory what = Example();
  what.request = Bytes{};
  what.where.clear();
  what.budget = Bytes{-1};
  what.floor = "the floor is 5 MiB";
  const std::string text = OutOfMemoryText(what);
  EXPECT_THAT(text, HasSubstr("what was away did not fit back, in step 7"));
  EXPECT_THAT(text, Not(HasSubstr("the budget is")));
  EXPECT_THAT(text, HasSubstr("floor: the floor is 5 MiB\n"));
}

TEST(OutOfMemoryTest, TheFirstFolderThatTakesItHasIt) {
  const std::string folder =
      absl::StrCat(testing::TempDir(), "out_of_memory_test_", getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string path =
      absl::StrCat(folder, "/ebbtide-oom-", getpid(), ".txt");
  EXPECT_EQ(WriteOutOfMemory(Example(), {"/missing", folder, "/tmp"}), path);
  EXPECT_EQ(ReadAll(path), OutOfMemoryText(Example()));
  // An existing file is not overwritten.
  EXPECT_EQ(WriteOutOfMemory(Example(), {folder, "/missing"}), "");
  EXPECT_EQ(WriteOutOfMemory(Example(), {"/dev/full", "/proc"}), "");
  std::filesystem::remove_all(folder);
}

TEST(OutOfMemoryTest, BesideTheReportOrHere) {
  const std::string here = std::filesystem::current_path();
  setenv("TMPDIR", "/elsewhere", 1);
  EXPECT_THAT(FoldersForReports("/a/b.json"),
              ElementsAre("/a", "/elsewhere", "/tmp"));
  EXPECT_THAT(FoldersForReports("/b.json"),
              ElementsAre("", "/elsewhere", "/tmp"));
  EXPECT_THAT(FoldersForReports("b.json"),
              ElementsAre(here, "/elsewhere", "/tmp"));
  unsetenv("TMPDIR");
  EXPECT_THAT(FoldersForReports(""), ElementsAre(here, "/tmp"));
}

}  // namespace
}  // namespace ebbtide
