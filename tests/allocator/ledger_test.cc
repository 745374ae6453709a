#include "allocator/ledger.h"

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

// Stand-ins for block addresses.
const char kBlocks[100] = {};
const void* Block(int i) { return &kBlocks[i]; }

Bytes Live(const Ledger& ledger, Kind kind) {
  return ledger.LiveByKind()[static_cast<int>(kind)];
}

TEST(LedgerTest, LiveBytesFollowTakesAndGives) {
  Ledger ledger;
  ledger.Take(Bytes{100});
  ledger.OnAllocate(Block(0), Bytes{1000}, Kind::kGradient);
  EXPECT_EQ(ledger.live(), Bytes{1100});
  EXPECT_EQ(Live(ledger, Kind::kOther), Bytes{100});
  EXPECT_EQ(Live(ledger, Kind::kGradient), Bytes{1000});
  EXPECT_EQ(ledger.OnFree(Block(0)), Bytes{1000});
  EXPECT_EQ(ledger.OnFree(Block(0)), Bytes{0});
  ledger.Give(Bytes{100});
  EXPECT_EQ(ledger.live(), Bytes{0});
  EXPECT_EQ(Live(ledger, Kind::kGradient), Bytes{0});
}

TEST(LedgerTest, TheLargestBlocksComeFirst) {
  Ledger ledger;
  ledger.Take(Bytes{5000});  // small ones are not entered
  for (int i = 0; i < 5; ++i) {
    ledger.OnAllocate(Block(i), Bytes{100 + i % 3}, Kind::kSaved);
  }
  ledger.Retag(Block(2), Kind::kGradient);
  const auto largest = ledger.Largest(3);
  ASSERT_EQ(largest.size(), 3);
  EXPECT_EQ(largest[0].address, Block(2));
  EXPECT_EQ(largest[0].bytes, Bytes{102});
  EXPECT_EQ(largest[0].kind, Kind::kGradient);
  EXPECT_EQ(largest[1].address, Block(1));
  EXPECT_EQ(largest[2].address, Block(4));
  EXPECT_EQ(ledger.Largest(9).size(), 5);
  EXPECT_TRUE(Ledger().Largest(1).empty());
}

TEST(LedgerTest, TryTakeStopsAtTheBudget) {
  Ledger ledger;
  ledger.SetBudget(Bytes{100});
  EXPECT_TRUE(ledger.TryTake(Bytes{60}));
  EXPECT_FALSE(ledger.WouldExceed(Bytes{40}));
  EXPECT_TRUE(ledger.WouldExceed(Bytes{41}));
  EXPECT_FALSE(ledger.TryTake(Bytes{41}, Kind::kScratch));
  EXPECT_EQ(ledger.live(), Bytes{60});
  EXPECT_EQ(Live(ledger, Kind::kScratch), Bytes{0});
  EXPECT_TRUE(ledger.TryTake(Bytes{40}));
  EXPECT_EQ(ledger.RunPeak(), Bytes{100});
}

TEST(LedgerTest, WithoutABudgetEverythingFits) {
  Ledger ledger;
  EXPECT_EQ(ledger.budget(), kNoBudget);
  ledger.Take(Bytes{5});
  EXPECT_FALSE(ledger.WouldExceed(Bytes{int64_t{1} << 62}));
}

TEST(LedgerTest, RetagMovesBytesBetweenKindsAndKeepsTheTotal) {
  Ledger ledger;
  ledger.OnAllocate(Block(1), Bytes{500}, Kind::kOther);
  EXPECT_TRUE(ledger.Retag(Block(1), Kind::kSaved));
  EXPECT_EQ(Live(ledger, Kind::kSaved), Bytes{500});
  EXPECT_EQ(Live(ledger, Kind::kOther), Bytes{0});
  EXPECT_TRUE(ledger.Retag(Block(1), Kind::kScratch));
  EXPECT_EQ(Live(ledger, Kind::kSaved), Bytes{0});
  EXPECT_EQ(ledger.live(), Bytes{500});
  EXPECT_FALSE(ledger.Retag(Block(2), Kind::kSaved));
  EXPECT_EQ(ledger.SizeOf(Block(1)), Bytes{500});
  EXPECT_EQ(ledger.SizeOf(Block(2)), Bytes{0});
}

TEST(LedgerTest, StepAndRunPeaksHaveTheirOwnResets) {
  Ledger ledger;
  ledger.Take(Bytes{300});
  ledger.Give(Bytes{200});
  EXPECT_EQ(ledger.Peak(), Bytes{300});
  ledger.ResetPeak();
  EXPECT_EQ(ledger.Peak(), Bytes{100});
  ledger.Take(Bytes{50});
  EXPECT_EQ(ledger.Peak(), Bytes{150});
  EXPECT_EQ(ledger.RunPeak(), Bytes{300});
}

TEST(LedgerTest, AWindowSeparatesOtherBytesFromSavedOnes) {
  Ledger ledger;
  ledger.OnAllocate(Block(0), Bytes{1000}, Kind::kSaved);
  ledger.Take(Bytes{10});
  ledger.BeginWindow();
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{10});
  ledger.Take(Bytes{70});  // a workspace
  ledger.OnAllocate(Block(1), Bytes{200}, Kind::kScratch);
  ledger.Give(Bytes{70});
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{80});
  // A saved block that becomes ordinary joins the other bytes.
  ledger.Retag(Block(0), Kind::kGradient);
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{1010});
  ledger.BeginWindow();
  EXPECT_EQ(ledger.Peak(), Bytes{1280});
}

// An LSTM saves its inputs before its kernel runs: the op's own peak was short
// of them.
TEST(LedgerTest, WhatIsSavedInsideAWindowCountsAsOtherUntilItEnds) {
  Ledger ledger;
  ledger.OnAllocate(Block(0), Bytes{1000}, Kind::kOther);
  ledger.BeginWindow();
  ledger.Retag(Block(0), Kind::kSaved);
  ledger.Take(Bytes{30});
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{1030});
  ledger.OnFree(Block(0));  // evicted
  ledger.Take(Bytes{20});
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{1050});
  ledger.BeginWindow();
  EXPECT_EQ(ledger.WindowPeakOther(), Bytes{50});
}

std::vector<std::string>* told = nullptr;

std::string Told(const char* what, int64_t a, int64_t b, Bytes live) {
  return absl::StrCat(what, " ", a, " ", b, " of ", Count(live));
}

TEST(LedgerTest, AnObserverIsToldOfTheBlocksThatItHasNumbered) {
  std::vector<std::string> lines;
  told = &lines;
  static constexpr Ledger::Observer kObserver = {
      .on_enter =
          [](const void* /*block*/, Bytes bytes, Kind kind, Bytes live) {
            told->push_back(
                Told("enter", Count(bytes), static_cast<int>(kind), live));
            return bytes < Bytes{10} ? -1 : Count(bytes);
          },
      .on_retag =
          [](int64_t number, Kind kind, Bytes live) {
            told->push_back(
                Told("retag", number, static_cast<int>(kind), live));
          },
      .on_give =
          [](int64_t number, Bytes bytes, Bytes live) {
            told->push_back(Told("give", number, Count(bytes), live));
          }};
  Ledger ledger;
  ledger.OnAllocate(Block(3), Bytes{500}, Kind::kOther);  // before it
  ledger.SetObserver(&kObserver);
  ledger.Take(Bytes{1});
  ledger.OnAllocate(Block(0), Bytes{10'000}, Kind::kOther);
  ledger.OnAllocate(Block(1), Bytes{9}, Kind::kOther);
  EXPECT_EQ(ledger.NumberOf(Block(0)), 10'000);
  EXPECT_EQ(ledger.NumberOf(Block(1)), -1);
  EXPECT_EQ(ledger.NumberOf(Block(2)), -1);
  ledger.Retag(Block(0), Kind::kSaved);
  ledger.Retag(Block(0), Kind::kSaved);
  ledger.Retag(Block(1), Kind::kSaved);
  ledger.OnFree(Block(1));
  ledger.OnFree(Block(3));
  ledger.OnFree(Block(0));
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "enter 500 0 of 500", "enter 10000 0 of 10501",
                       "enter 9 0 of 10510", "retag 10000 4 of 10510",
                       "give 500 500 of 10001", "give 10000 10000 of 1"}));
}

// The ledger against the obvious sum over what is held.
TEST(LedgerTest, RandomUseMatchesANaiveSum) {
  std::mt19937 rng(11);
  Ledger ledger;
  struct Held {
    int64_t bytes = 0;
    Kind kind = Kind::kOther;
    bool joined = false;  // became left out in this window
  };
  const auto left_out = [](Kind kind) {
    return kind == Kind::kSaved || kind == Kind::kScratch;
  };
  std::vector<Held> held(100);
  int64_t peak = 0, window_other = 0, gone = 0;
  for (int i = 0; i < 20000; ++i) {
    const int at = rng() % 100;
    const Kind kind = static_cast<Kind>(rng() % kKinds);
    if (held[at].bytes == 0) {
      held[at] = {1 + static_cast<int64_t>(rng() % 1000), kind};
      ledger.OnAllocate(Block(at), Bytes{held[at].bytes}, kind);
    } else if (rng() % 2 == 0) {
      if (!left_out(kind)) held[at].joined = false;
      if (left_out(kind) && !left_out(held[at].kind)) held[at].joined = true;
      held[at].kind = kind;
      ASSERT_TRUE(ledger.Retag(Block(at), kind));
    } else {
      ASSERT_EQ(ledger.OnFree(Block(at)), Bytes{held[at].bytes});
      if (held[at].joined) gone += held[at].bytes;
      held[at] = {};
    }
    int64_t live = 0, other = gone;
    BytesByKind by_kind{};
    for (const Held& each : held) {
      live += each.bytes;
      by_kind[static_cast<int>(each.kind)] += Bytes{each.bytes};
      if (!left_out(each.kind) || each.joined) other += each.bytes;
    }
    peak = std::max(peak, live);
    window_other = std::max(window_other, other);
    ASSERT_EQ(ledger.live(), Bytes{live});
    ASSERT_EQ(ledger.LiveByKind(), by_kind);
    ASSERT_EQ(ledger.RunPeak(), Bytes{peak});
    ASSERT_EQ(ledger.WindowPeakOther(), Bytes{window_other});
    if (rng() % 50 == 0) {
      ledger.BeginWindow();
      window_other = gone = 0;
      for (Held& each : held) {
        each.joined = false;
        if (!left_out(each.kind)) window_other += each.bytes;
      }
    }
  }
}

TEST(LedgerTest, ThreadsTogetherNeverTakeMoreThanTheBudget) {
  Ledger ledger;
  ledger.SetBudget(Bytes{1000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger, t] {
      for (int i = 0; i < 20000; ++i) {
        const Bytes bytes{100 + (i * 37 + t) % 400};
        if (ledger.TryTake(bytes)) ledger.Give(bytes);
        if (i % 100 == 0) ledger.BeginWindow();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.live(), Bytes{0});
  EXPECT_LE(ledger.RunPeak(), Bytes{1000});
  EXPECT_GT(ledger.RunPeak(), Bytes{400});
}

}  // namespace
}  // namespace ebbtide
