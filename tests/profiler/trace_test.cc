#include "profiler/trace.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "profiler/clock.h"
#include "profiler/trace_format.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;

std::string Path() {
  return testing::TempDir() + "/" +
         testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".ebbtide";
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<TraceWriter> MustOpen(const TraceOptions& options = {}) {
  auto writer = TraceWriter::Open(Path(), options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

Trace MustRead() {
  auto trace = ReadTrace(Path());
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

// One of everything.
struct Sample {
  Span span = {SpanKind::kRecompute, 1, 200, 250, Bytes{4096}, 1};
  BudgetChange budget = {300, Bytes{1 << 30}};
  Eviction eviction = {310, 0, Bytes{77}, Eviction::How::kSpill, 0, true};
  BlockNote shape = {BlockNote::What::kShape, 0, 1, kNoBlock};
  BlockNote layer = {BlockNote::What::kOfLayer, 0, 1, kNoBlock};
  BlockNote returns = {BlockNote::What::kReturns, 1, -1, 0};
  TierSample tier = {320, Bytes{5}, Bytes{int64_t{1} << 40}};
  PeakRecord peak = {
      320,
      4,
      {{0, Bytes{900}, Kind::kSaved}, {1, Bytes{800}, Kind::kOptimizer}}};
  TraceText note = {330, TextKind::kNote, "a note"};
  TraceText plan = {340, TextKind::kPlan, std::string(100'000, 'p')};

  void Write(TraceWriter& writer) const {
    EXPECT_EQ(writer.Name("aten::mm [8,8]"), 0);
    EXPECT_EQ(writer.Name("aten::relu"), 1);
    EXPECT_EQ(writer.Name("aten::mm [8,8]"), 0);
    writer.BeginStep(4, 50);
    EXPECT_EQ(writer.Allocate(100, Bytes{1000}, Kind::kOther, 1, Bytes{1010}),
              0);
    EXPECT_EQ(writer.Allocate(110, Bytes{int64_t{1} << 40}, Kind::kSaved, -1,
                              Bytes{(int64_t{1} << 40) + 1011}),
              1);
    writer.Retag(120, 0, Kind::kParameter, Bytes{(int64_t{1} << 40) + 1012});
    writer.Free(130, 1, Bytes{int64_t{1} << 40}, Bytes{1013});
    writer.ForgetBlocks(140, Bytes{14});
    writer.Add(shape);
    writer.Add(layer);
    writer.Add(returns);
    writer.Add(tier);
    writer.Add(span);
    writer.Add(budget);
    writer.Add(eviction);
    writer.EndStep(4, 315, Bytes{1234});
    writer.AddPeak(peak);
    writer.AddText(note);
    writer.AddText(plan);
    writer.BeginStep(5, 400);
  }

  void Expect(const Trace& trace) const {
    EXPECT_EQ(trace.names,
              (std::vector<std::string>{"aten::mm [8,8]", "aten::relu"}));
    using What = BlockEvent::What;
    EXPECT_EQ(
        trace.blocks,
        (std::vector<BlockEvent>{
            {What::kAllocate, 100, 0, Bytes{1000}, Kind::kOther, 1, Bytes{10}},
            {What::kAllocate, 110, 1, Bytes{int64_t{1} << 40}, Kind::kSaved, -1,
             Bytes{11}},
            {What::kRetag, 120, 0, {}, Kind::kParameter, -1, Bytes{12}},
            {What::kFree, 130, 1, {}, Kind::kOther, -1, Bytes{13}},
            {What::kForget, 140, kNoBlock, {}, Kind::kOther, -1, Bytes{14}}}));
    const Bytes large{int64_t{1} << 40};
    EXPECT_EQ(trace.curve, (std::vector<CurveSample>{
                               {100, {Bytes{1010}}},
                               {110, {Bytes{1011}, {}, {}, {}, large}},
                               {120, {Bytes{12}, Bytes{1000}, {}, {}, large}},
                               {130, {Bytes{13}, Bytes{1000}}},
                               {140, {Bytes{14}}}}));
    EXPECT_EQ(trace.notes, (std::vector<BlockNote>{shape, layer, returns}));
    EXPECT_EQ(trace.tiers, std::vector<TierSample>{tier});
    EXPECT_EQ(trace.spans, std::vector<Span>{span});
    EXPECT_EQ(trace.budgets, std::vector<BudgetChange>{budget});
    EXPECT_EQ(trace.evictions, std::vector<Eviction>{eviction});
    EXPECT_EQ(trace.steps, (std::vector<StepRecord>{{4, 50, 315, Bytes{1234}},
                                                    {5, 400, 0, Bytes{0}}}));
    EXPECT_EQ(trace.peaks, std::vector<PeakRecord>{peak});
    EXPECT_EQ(trace.texts, (std::vector<TraceText>{note, plan}));
  }
};

TEST(TraceTest, WhatIsWrittenIsRead) {
  const int64_t before = NowNanos();
  const auto writer = MustOpen();
  Sample().Write(*writer);
  EXPECT_TRUE(writer->Close().ok());
  const Trace trace = MustRead();
  Sample().Expect(trace);
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.damage, "");
  EXPECT_EQ(trace.dropped, 0);
  EXPECT_EQ(trace.process, getpid());
  EXPECT_GE(trace.start, before);
  EXPECT_GT(trace.unix_nanos, 1'500'000'000'000'000'000);
}

TEST(TraceTest, AKilledRunIsReadableUpToItsLastWrite) {
  const pid_t child = fork();
  if (child == 0) {
    const auto writer = MustOpen();
    Sample().Write(*writer);
    // Longer than the interval of the background thread.
    usleep(400'000);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const Trace trace = MustRead();
  Sample().Expect(trace);
  EXPECT_FALSE(trace.complete);
  EXPECT_EQ(trace.damage, "");
}

TEST(TraceTest, EveryPrefixOfAFileIsReadUpToItsLastWholeRecord) {
  const auto writer = MustOpen();
  Sample().Write(*writer);
  ASSERT_TRUE(writer->Close().ok());
  const std::string bytes = Contents(Path());
  // The long text is cut in coarser steps.
  size_t last_records = 0;
  for (size_t size = 16; size < bytes.size(); size += size < 300 ? 1 : 997) {
    const auto trace = ParseTrace(bytes.substr(0, size), "part");
    ASSERT_TRUE(trace.ok());
    EXPECT_FALSE(trace->complete);
    const size_t records = trace->names.size() + trace->curve.size() +
                           trace->spans.size() + trace->steps.size() +
                           trace->texts.size();
    EXPECT_GE(records, last_records);
    last_records = records;
    if (!trace->damage.empty()) {
      EXPECT_THAT(trace->damage, HasSubstr("ends inside a record"));
    }
  }
}

TEST(TraceTest, DamageIsFoundAndNamed) {
  const auto writer = MustOpen();
  Sample().Write(*writer);
  ASSERT_TRUE(writer->Close().ok());
  const std::string bytes = Contents(Path());
  std::mt19937 rng(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    const size_t at = 16 + rng() % (i % 2 == 0 ? 400 : bytes.size() - 16);
    damaged[at] ^= 1 << (rng() % 8);
    const auto trace = ParseTrace(damaged, "damaged");
    ASSERT_TRUE(trace.ok());
    EXPECT_THAT(trace->damage, HasSubstr("byte "));
    EXPECT_FALSE(trace->complete);
  }
}

// Checksums that fit must not make nonsense safe by accident.
TEST(TraceTest, NonsenseUnderAValidChecksumIsRefused) {
  std::mt19937 rng(6);
  for (int i = 0; i < 20000; ++i) {
    std::string payload(1 + rng() % 40, '\0');
    for (char& c : payload) c = static_cast<char>(rng());
    payload[0] = static_cast<char>(rng() % 18);
    std::string bytes = "EBBTIDE\n";
    char word[4];
    for (const uint32_t value :
         {uint32_t{3}, uint32_t{0}, static_cast<uint32_t>(payload.size()),
          trace_format::Crc32c(payload.data(), payload.size())}) {
      trace_format::PutU32(word, value);
      bytes.append(word, 4);
    }
    ASSERT_TRUE(ParseTrace(bytes + payload, "nonsense").ok());
  }
}

TEST(TraceTest, TheChecksumIsCrc32c) {
  // The check value of CRC-32C (iSCSI, RFC 3720).
  EXPECT_EQ(trace_format::Crc32c("123456789", 9), 0xe3069283);
}

TEST(TraceTest, OtherFilesAreRefusedByName) {
  const auto missing = ReadTrace(testing::TempDir() + "/missing.ebbtide");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  const auto json = ParseTrace("{\"kind\":\"profile\"}", "a.json");
  EXPECT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(json.status().message()),
              HasSubstr("a.json: not a trace of ebbtide"));
  std::string newer = "EBBTIDE\n";
  newer += std::string("\x04\0\0\0\0\0\0\0", 8);
  EXPECT_THAT(std::string(ParseTrace(newer, "b").status().message()),
              HasSubstr("trace version 4; this program reads versions 1 to 3"));
}

// A file that the program wrote before it recorded blocks.
TEST(TraceTest, AFileOfVersion1IsRead) {
  const auto trace = ReadTrace(EBBTIDE_TEST_DATA "/trace_v1.ebbtide");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->names,
            (std::vector<std::string>{"aten::mm [8,8]", "aten::relu"}));
  EXPECT_EQ(
      trace->curve,
      (std::vector<CurveSample>{
          {100, {Bytes{1}, Bytes{2}, Bytes{3}, Bytes{4}, Bytes{5}, Bytes{6}}},
          {190, {Bytes{0}, Bytes{int64_t{1} << 40}}}}));
  EXPECT_EQ(trace->spans, (std::vector<Span>{{SpanKind::kRecompute, 1, 200, 250,
                                              Bytes{4096}, kNoBlock}}));
  EXPECT_EQ(trace->evictions,
            (std::vector<Eviction>{
                {310, 0, Bytes{77}, Eviction::How::kSpill, kNoBlock, false}}));
  EXPECT_EQ(trace->budgets.size(), 1);
  EXPECT_EQ(trace->peaks.at(0).holders.size(), 2);
  EXPECT_EQ(trace->texts.at(0).text, "a note");
  EXPECT_EQ(trace->steps, (std::vector<StepRecord>{{4, 50, 315, Bytes{1234}},
                                                   {5, 400, 0, Bytes{0}}}));
  EXPECT_TRUE(trace->blocks.empty());
  EXPECT_TRUE(trace->complete);
}

TEST(TraceTest, AFullFileKeepsStepsAndNotes) {
  const auto writer = MustOpen({.max_size = Bytes{64 << 10}});
  writer->Name("op");
  EXPECT_TRUE(writer->takes_detail());
  for (int64_t i = 0; i < 20000; ++i) {
    writer->Add(Span{SpanKind::kForward, 0, i * 1000, i * 1000 + 500});
  }
  EXPECT_FALSE(writer->takes_detail());
  const int64_t dropped = writer->dropped();
  EXPECT_EQ(writer->Allocate(1, Bytes{1}, Kind::kOther, 0, Bytes{1}), kNoBlock);
  EXPECT_EQ(writer->dropped(), dropped + 1);
  writer->BeginStep(1, 5);
  writer->EndStep(1, 6, Bytes{7});
  writer->AddText({8, TextKind::kNote, "the end"});
  EXPECT_EQ(writer->Name("another"), 1);
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_LE(Contents(Path()).size(), 64 << 10);
  const Trace trace = MustRead();
  EXPECT_TRUE(trace.complete);
  EXPECT_GT(trace.dropped, 10000);
  EXPECT_GT(trace.detail_end, 0);
  EXPECT_EQ(trace.steps.size(), 1);
  EXPECT_EQ(trace.texts.at(0).text, "the end");
  EXPECT_EQ(trace.names.at(1), "another");
}

// A part of one would be taken for the beginning of the next.
TEST(TraceTest, ATextIsWholeInTheFileOrLeftOut) {
  const auto writer = MustOpen({.max_size = Bytes{100 << 10}});
  const TraceText first = {1, TextKind::kProfile, std::string(70'000, 'a')};
  const TraceText large = {2, TextKind::kPlan, std::string(40'000, 'b')};
  const TraceText last = {3, TextKind::kReport, std::string(20'000, 'c')};
  for (const TraceText& text : {first, large, last}) writer->AddText(text);
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_LE(Contents(Path()).size(), 100 << 10);
  const Trace trace = MustRead();
  EXPECT_EQ(trace.texts, (std::vector<TraceText>{first, last}));
  EXPECT_EQ(trace.dropped, 1);
}

TEST(TraceTest, AFullBufferDropsRecordsAndNeverBlocks) {
  const auto writer = MustOpen({.buffer = Bytes{32 << 10}});
  writer->Name("op");
  for (int64_t i = 0; i < 200'000; ++i) {
    writer->Add(Span{SpanKind::kForward, 0, i * 1000, i * 1000 + 500});
  }
  const int64_t dropped = writer->dropped();
  EXPECT_TRUE(writer->Close().ok());
  const Trace trace = MustRead();
  EXPECT_EQ(trace.dropped, dropped);
  EXPECT_EQ(trace.spans.size() + trace.dropped, 200'000);
  // Differences refer to what was written, not to what was dropped.
  for (const Span& span : trace.spans) {
    ASSERT_EQ(span.end - span.begin, 500);
    ASSERT_EQ(span.begin % 1000, 0);
  }
}

TEST(TraceTest, ThreadsWriteAtOnce) {
  const auto writer = MustOpen();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 2000; ++i) {
        const int name = writer->Name("op" + std::to_string(i % 50));
        writer->Add(Span{SpanKind::kForward, name, i, i + 1, Bytes{t}});
        if (i % 500 == 0) {
          writer->AddText({i, TextKind::kNote, std::string(50'000, 'a' + t)});
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(writer->Close().ok());
  const Trace trace = MustRead();
  EXPECT_EQ(trace.spans.size(), 8000);
  EXPECT_EQ(trace.names.size(), 50);
  ASSERT_EQ(trace.texts.size(), 16);
  for (const TraceText& each : trace.texts) {
    EXPECT_EQ(each.text, std::string(50'000, each.text[0]));
  }
}

TEST(TraceTest, ADiskThatRefusesIsReportedAtTheEnd) {
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto writer = MustOpen();
  const rlimit small = {.rlim_cur = 1000, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Sample().Write(*writer);
  const absl::Status status = writer->Close();
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be written"));
  EXPECT_EQ(MustRead().names.size(), 2);
}

TEST(TraceTest, TwoWritersOfOneFileAreRefused) {
  const auto writer = MustOpen();
  EXPECT_EQ(TraceWriter::Open(Path()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TraceWriter::Open("/proc/nothing").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TraceTest, ADeviceTakesTracesOfManyProcesses) {
  const auto one = TraceWriter::Open("/dev/null");
  const auto two = TraceWriter::Open("/dev/null");
  ASSERT_TRUE(one.ok() && two.ok());
  Sample().Write(**one);
  EXPECT_TRUE((*one)->Close().ok());
}

TEST(TraceTest, AChildOfForkWritesNothing) {
  const auto writer = MustOpen();
  writer->AddText({1, TextKind::kNote, "parent"});
  writer->BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    writer->AfterForkInChild();
    writer->AddText({2, TextKind::kNote, "child"});
    writer->BeginStep(1, 2);
    _exit(writer->Close().ok() ? 0 : 1);
  }
  writer->AfterForkInParent();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(writer->Close().ok());
  const Trace trace = MustRead();
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.texts.size(), 1);
  EXPECT_TRUE(trace.steps.empty());
}

}  // namespace
}  // namespace ebbtide
