#include "hooks/run_log.h"

#include <memory>

#include "hooks/device.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

TraceWriter* writer = nullptr;  // leaked: other threads may still sample

Ledger* sampled = nullptr;

void SampleCurve(const BytesByKind& live) {
  writer->Add(CurveSample{.time = NowNanos(), .live = live});
}

}  // namespace

RunLog& RunLog::Global() {
  static RunLog& log = *new RunLog;
  return log;
}

absl::Status RunLog::Open(const std::string& path, Bytes max_size) {
  auto opened = TraceWriter::Open(path, {.max_size = max_size});
  if (!opened.ok()) return opened.status();
  writer = opened->release();
  is_open_ = true;
  SampleFrom(&Device::Get().ledger(0));
  return absl::OkStatus();
}

void RunLog::SampleFrom(Ledger* ledger) {
  if (!is_open_) return;
  if (sampled != nullptr) sampled->SetCurveHandler(nullptr);
  sampled = ledger;
  sampled->SetCurveHandler(&SampleCurve);
}

void RunLog::Close() {
  if (!is_open_) return;
  sampled->SetCurveHandler(nullptr);
  is_open_ = false;
  writer->Close().IgnoreError();  // the run is over; the file says how far
}

void RunLog::BeginStep(int64_t index) {
  if (is_open_) writer->BeginStep(index, NowNanos());
}

void RunLog::EndStep(int64_t index, Bytes peak) {
  if (is_open_) writer->EndStep(index, NowNanos(), peak);
}

void RunLog::SetBudget(Bytes budget) {
  if (is_open_) writer->Add(BudgetChange{NowNanos(), budget});
}

void RunLog::AddEviction(absl::string_view what, Bytes bytes,
                         Eviction::How how) {
  if (!is_open_) return;
  writer->Add(Eviction{NowNanos(), writer->Name(what), bytes, how});
}

void RunLog::AddSpan(SpanKind kind, absl::string_view what, int64_t begin,
                     Bytes bytes) {
  if (!is_open_) return;
  writer->Add(Span{.kind = kind,
                   .name = writer->Name(what),
                   .begin = begin,
                   .end = NowNanos(),
                   .bytes = bytes});
}

void RunLog::AddText(TextKind kind, std::string text) {
  if (is_open_) writer->AddText({NowNanos(), kind, std::move(text)});
}

void RunLog::BeforeFork() {
  if (is_open_) writer->BeforeFork();
}

void RunLog::AfterForkInParent() {
  if (is_open_) writer->AfterForkInParent();
}

void RunLog::AfterForkInChild() {
  if (!is_open_) return;
  writer->AfterForkInChild();
  is_open_ = false;
}

}  // namespace ebbtide
