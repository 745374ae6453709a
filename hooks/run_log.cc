#include "hooks/run_log.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "hooks/parameter_names.h"
#include "hooks/tape.h"
#include "hooks/weights.h"
#include "profiler/optimizer_blocks.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

TraceWriter* writer = nullptr;  // leaked: other threads may still write

std::atomic<Ledger*> sampled = nullptr;

OptimizerBlocks* optimizer_blocks = nullptr;  // as the writer
std::atomic<bool> in_pass = false;            // forward or backward

// Read at every large allocation; see hooks/thread_flag.h.
[[gnu::tls_model("initial-exec")]] thread_local int op_here = RunLog::kNoName;

// The parameter that what is being tagged is, or is the gradient of.
thread_local const void* tagged_parameter = nullptr;

void AddLayer(int64_t block, int name) {
  if (block == kNoBlock || name == RunLog::kNoName) return;
  writer->Add(BlockNote{
      .what = BlockNote::What::kOfLayer, .block = block, .name = name});
}

constexpr Ledger::Observer kObserver = {
    .on_enter =
        [](const void* block, Bytes bytes, Kind kind, Bytes live) {
          if (bytes < Bytes{static_cast<int64_t>(LeastManaged())}) {
            return kNoBlock;
          }
          const int64_t number =
              writer->Allocate(NowNanos(), bytes, kind, op_here, live);
          const bool may_be_state = !in_pass && op_here == RunLog::kNoName &&
                                    kind == Kind::kOther && number != kNoBlock;
          if (may_be_state) optimizer_blocks->Add({number, block}, bytes);
          return number;
        },
    .on_retag =
        [](int64_t number, Kind kind, Bytes live) {
          writer->Retag(NowNanos(), number, kind, live);
          if (tagged_parameter != nullptr) {
            AddLayer(number, NameOfParameter(tagged_parameter).own);
          }
        },
    .on_give =
        [](int64_t number, Bytes bytes, Bytes live) {
          writer->Free(NowNanos(), number, bytes, live);
          optimizer_blocks->Remove(number);
        },
};

// Returns the command line of the process.
std::string RunText() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line{std::istreambuf_iterator<char>(file), {}};
  if (!line.empty()) line.pop_back();
  const std::vector<std::string> command = absl::StrSplit(line, '\0');
  return nlohmann::json({{"command", command}, {"ebbtide", EBBTIDE_VERSION}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

RunLog& RunLog::Global() {
  static RunLog& log = *new RunLog;
  return log;
}

absl::Status RunLog::Open(const std::string& path, Bytes max_size,
                          Ledger* ledger) {
  auto opened = TraceWriter::Open(path, {.max_size = max_size});
  if (!opened.ok()) return opened.status();
  writer = opened->release();
  optimizer_blocks = new OptimizerBlocks;
  is_open_ = true;
  AddText(TextKind::kRun, RunText());
  SampleFrom(ledger);
  return absl::OkStatus();
}

void RunLog::SampleFrom(Ledger* ledger) {
  if (!is_open_) return;
  if (Ledger* const before = sampled.exchange(ledger)) {
    before->SetObserver(nullptr);
    writer->ForgetBlocks(NowNanos(), ledger->live());
  }
  ledger->SetObserver(&kObserver);
}

void RunLog::Close() {
  if (!is_open_) return;
  sampled.load()->SetObserver(nullptr);
  is_open_ = false;
  writer->Close().IgnoreError();  // the run is over; the file says how far
}

bool RunLog::TakesDetail() const { return is_open_ && writer->takes_detail(); }

int RunLog::EnterOp(absl::string_view name) { return op_here = Number(name); }

int RunLog::Number(absl::string_view name) {
  return TakesDetail() ? writer->Name(name) : kNoName;
}

TierLog RunLog::ForTier() const {
  if (!is_open_) return {};
  return {.about =
              [](absl::string_view what, const void* data) {
                return Span{.name = Global().Number(what),
                            .value = Global().BlockAt(data)};
              },
          .add = [](const Span& span) { Global().AddSpan(span); }};
}

void RunLog::LeaveOp() { op_here = kNoName; }

void RunLog::BeginStep(int64_t index) {
  if (!is_open_) return;
  writer->BeginStep(index, NowNanos());
  in_pass = true;
  for (const auto& block : optimizer_blocks->BeginStep()) {
    Ledger& ledger = *sampled;
    if (ledger.NumberOf(block.address) == block.number) {
      ledger.Retag(block.address, Kind::kOptimizer);
    }
  }
}

void RunLog::EndPass() {
  in_pass = false;
  LeaveOp();
}

void RunLog::Tag(const void* data, Kind kind, const void* parameter) {
  Ledger& ledger = *sampled;
  tagged_parameter = parameter;
  ledger.Retag(data, kind);
  tagged_parameter = nullptr;
  if (kind == Kind::kParameter) {
    optimizer_blocks->NoteParameter(ledger.SizeOf(data));
  }
}

void RunLog::NoteLayer(int64_t block, const void* parameter) {
  if (!is_open_ || block == kNoBlock || parameter == nullptr) return;
  AddLayer(block, NameOfParameter(parameter).layer);
}

void RunLog::NameParameter(const at::Tensor& parameter,
                           absl::string_view name) {
  if (!is_open_ || !IsPlainTensor(parameter)) return;
  const absl::string_view layer = name.substr(0, name.rfind('.'));
  const ParameterName known = {writer->Name(name), writer->Name(layer)};
  const c10::Storage& bytes = parameter.storage();
  ebbtide::NameParameter(bytes.unsafeGetStorageImpl(), known);
  if (!IsAway(bytes)) AddLayer(BlockAt(bytes.data()), known.own);
}

void RunLog::EndStep(int64_t index, Bytes peak) {
  if (is_open_) writer->EndStep(index, NowNanos(), peak);
}

void RunLog::SetBudget(Bytes budget) {
  if (is_open_) writer->Add(BudgetChange{NowNanos(), budget});
}

void RunLog::AddEviction(absl::string_view what, const Eviction& eviction) {
  if (!is_open_) return;
  Eviction named = eviction;
  named.time = NowNanos();
  named.name = writer->Name(what);
  writer->Add(named);
}

void RunLog::AddSpan(const Span& span) {
  if (is_open_ && span.name != kNoName) writer->Add(span);
}

void RunLog::AddOp(SpanKind kind, int name, int64_t begin) {
  if (name == kNoName) return;
  AddSpan({.kind = kind, .name = name, .begin = begin, .end = NowNanos()});
}

void RunLog::AddTier(Bytes host, Bytes disk) {
  if (!is_open_) return;
  writer->Add(TierSample{.time = NowNanos(), .host = host, .disk = disk});
}

void RunLog::AddText(TextKind kind, std::string text) {
  if (is_open_) writer->AddText({NowNanos(), kind, std::move(text)});
}

int64_t RunLog::BlockAt(const void* data) const {
  return is_open_ ? sampled.load()->NumberOf(data) : kNoBlock;
}

void RunLog::NoteShape(int64_t block, const at::Tensor& tensor) {
  if (!is_open_ || block == kNoBlock) return;
  const std::string shape =
      absl::StrCat(c10::toString(tensor.scalar_type()), " [",
                   absl::StrJoin(tensor.sizes(), ", "), "]");
  writer->Add(BlockNote{.what = BlockNote::What::kShape,
                        .block = block,
                        .name = writer->Name(shape)});
}

void RunLog::NoteMaker(int64_t block, absl::string_view op) {
  if (!is_open_ || block == kNoBlock || op.empty()) return;
  writer->Add(BlockNote{.what = BlockNote::What::kMadeBy,
                        .block = block,
                        .name = writer->Name(op)});
}

void RunLog::NoteUnpacked(int64_t block, absl::string_view name) {
  if (!is_open_ || block == kNoBlock) return;
  writer->Add(BlockNote{.what = BlockNote::What::kUnpackedBy,
                        .block = block,
                        .name = writer->Name(name)});
}

void RunLog::NoteReturn(const void* data, int64_t value,
                        const void* parameter) {
  if (!is_open_ || value == kNoBlock) return;
  const int64_t block = BlockAt(data);
  if (block == kNoBlock || block == value) return;
  writer->Add(BlockNote{
      .what = BlockNote::What::kReturns, .block = block, .value = value});
  NoteLayer(block, parameter);
}

void RunLog::BeforeFork() {
  if (is_open_) writer->BeforeFork();
}

void RunLog::AfterForkInParent() {
  if (is_open_) writer->AfterForkInParent();
}

void RunLog::AfterForkInChild() {
  if (!is_open_) return;
  // Locks of ours may be held by threads that the child does not have.
  sampled.load()->SetObserver(nullptr);
  writer->AfterForkInChild();
  is_open_ = false;
}

}  // namespace ebbtide
