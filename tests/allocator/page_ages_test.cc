#include "allocator/arena/page_ages.h"

#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

// Marks are numbers of streams and times; the test says which are over.
class FakeOrder final : public StreamOrder {
 public:
  struct At {
    int stream;
    int number;
  };

  int streams() const override { return 2; }
  absl::StatusOr<StreamMark> Mark(int stream) override {
    if (fails) return absl::UnavailableError("it was to fail");
    return std::make_shared<const At>(At{stream, ++marks});
  }
  absl::Status RunBehind(const StreamMark&, int) override {
    return absl::InternalError("nothing is ordered");
  }
  bool IsOver(const StreamMark& mark) override {
    return over.contains(Get(mark).number);
  }
  absl::Status Wait(const StreamMark& mark) override {
    waits.push_back(Get(mark).number);
    return absl::OkStatus();
  }

  int marks = 0;
  bool fails = false;
  std::set<int> over;
  std::vector<int> waits;

 private:
  static const At& Get(const StreamMark& mark) {
    return *static_cast<const At*>(mark.get());
  }
};

class PageAgesTest : public testing::Test {
 protected:
  void Free(int64_t page, int stream = 0, bool is_shared = false) {
    ages_.OnFree({page, page + 1}, stream, is_shared);
  }

  FakeOrder order_;
  PageAges ages_{&order_};
};

TEST_F(PageAgesTest, APageThatWasNeverFreedIsOver) {
  EXPECT_EQ(ages_.AgeOf(7), 0);
  EXPECT_TRUE(ages_.WaitFor({7}));
  EXPECT_EQ(order_.marks, 0);
}

TEST_F(PageAgesTest, TheOldestAreOverOrFreedFirstAndTouchFewOthers) {
  Free(3);
  Free(1);
  const std::vector<FreePage> pages = {{.neighbours = 1, .index = 1},
                                       {.neighbours = 2, .index = 3},
                                       {.neighbours = 2, .index = 5},
                                       {.neighbours = 1, .index = 7}};
  EXPECT_EQ(ages_.Oldest(9, pages), (std::vector<int64_t>{7, 5, 3, 1}));
  EXPECT_EQ(ages_.Oldest(3, pages), (std::vector<int64_t>{7, 5, 3}));
  EXPECT_TRUE(ages_.Oldest(3, {}).empty());
}

TEST_F(PageAgesTest, PagesAgeInTheOrderOfTheirFrees) {
  Free(3);
  Free(1);
  EXPECT_LT(ages_.AgeOf(3), ages_.AgeOf(1));
  Free(3);
  EXPECT_GT(ages_.AgeOf(3), ages_.AgeOf(1));
  EXPECT_EQ(order_.marks, 0) << "no page has been wanted yet";
}

TEST_F(PageAgesTest, AWaitIsForThePagesThatAreWanted) {
  Free(0);
  ASSERT_TRUE(ages_.WaitFor({0}));
  EXPECT_EQ(order_.waits, std::vector<int>({1}));
  EXPECT_EQ(ages_.AgeOf(0), 0);
  for (int page = 1; page <= 2 * PageAges::kFreesPerMark; ++page) Free(page);
  EXPECT_EQ(order_.marks, 3);
  ASSERT_TRUE(ages_.WaitFor({1}));
  EXPECT_EQ(order_.waits, std::vector<int>({1, 2}));
  EXPECT_EQ(ages_.AgeOf(PageAges::kFreesPerMark), 0);
  EXPECT_NE(ages_.AgeOf(PageAges::kFreesPerMark + 1), 0);
  EXPECT_EQ(order_.marks, 3);
}

TEST_F(PageAgesTest, WorkBeforeAMarkThatIsOverIsOver) {
  Free(0);
  ASSERT_TRUE(ages_.WaitFor({0}));
  for (int page = 1; page <= 2 * PageAges::kFreesPerMark; ++page) Free(page);
  ages_.Update();
  EXPECT_NE(ages_.AgeOf(1), 0);
  order_.over = {2};
  EXPECT_NE(ages_.AgeOf(1), 0) << "nobody has asked";
  ages_.Update();
  EXPECT_EQ(ages_.AgeOf(1), 0);
  EXPECT_NE(ages_.AgeOf(PageAges::kFreesPerMark + 1), 0);
}

TEST_F(PageAgesTest, AStreamsWorkSaysNothingOfAnothers) {
  Free(0, 0);
  Free(1, 1);
  ASSERT_TRUE(ages_.WaitFor({1}));
  EXPECT_EQ(ages_.AgeOf(1), 0);
  EXPECT_NE(ages_.AgeOf(0), 0);
}

TEST_F(PageAgesTest, APageOfSeveralStreamsIsOverWhenAllOfThemAre) {
  Free(0, 0);
  Free(0, 1);
  Free(1, 0, /*is_shared=*/true);
  ASSERT_TRUE(ages_.WaitFor({0}));
  EXPECT_EQ(order_.waits, std::vector<int>({1, 2})) << "one per stream";
  EXPECT_EQ(ages_.AgeOf(0), 0);
  EXPECT_EQ(ages_.AgeOf(1), 0);
}

TEST_F(PageAgesTest, AWaitForAllIsForWorkWithoutAFree) {
  Free(0);
  ASSERT_TRUE(ages_.WaitFor({0}));
  ASSERT_TRUE(ages_.WaitForAll());
  EXPECT_EQ(order_.waits, std::vector<int>({1, 2, 3}));
}

TEST_F(PageAgesTest, WhereAStreamCannotBeMarkedNothingIsOver) {
  Free(0);
  order_.fails = true;
  EXPECT_FALSE(ages_.WaitFor({0}));
  EXPECT_FALSE(ages_.WaitForAll());
  EXPECT_NE(ages_.AgeOf(0), 0);
}

}  // namespace
}  // namespace ebbtide
