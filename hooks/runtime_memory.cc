// Messages about memory that has run out.
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>

#include <chrono>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/torch_cpu_allocator.h"
#include "hooks/busy.h"
#include "hooks/out_of_memory.h"
#include "hooks/proving.h"
#include "hooks/recipe.h"
#include "hooks/runtime.h"
#include "hooks/runtime_lock.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr int kLargest = 10;

std::string Held(const TapeStorage& storage) {
  if (storage.parameter) return "a parameter";
  if (storage.hooks > 0) return "saved for the backward pass";
  if (storage.dependents > 0) return "read by recipes";
  return storage.external ? "from outside of the step" : "";
}

OutOfMemory::Block Describe(const Ledger::Block& block,
                            const Residency& residency) {
  OutOfMemory::Block described = {.bytes = block.bytes, .kind = block.kind};
  residency.VisitBlock(block.address, [&](const Tape& tape, int index) {
    const TapeStorage& storage = tape.storages[index];
    if (!storage.writers.empty()) {
      described.op = tape.ops[storage.writers.back()].info->name;
    }
    described.held = Held(storage);
    if (storage.parameter) described.kind = Kind::kParameter;
  });
  return described;
}

// Adds the largest saved bytes that cannot be evicted, with the reason.
void AddWhatStays(const Coverage& coverage, std::vector<std::string>* helps) {
  constexpr int kMost = 3;
  int told = 0;
  for (const CoverageGroup& group : coverage.groups) {
    if (group.tier != "kept" || told++ == kMost) continue;
    helps->push_back(absl::StrCat("what lets ", FormatSize(group.bytes), " of ",
                                  group.op, " go, which stay: ", group.reason));
  }
}

}  // namespace

// The op or the backward node that this thread is inside, for people.
std::string Runtime::Here() const {
  if (const auto node = torch::autograd::get_current_node()) {
    return node->name();
  }
  const int op = tape_ == nullptr ? -1 : CurrentOp(tape_.get());
  return op < 0 ? "outside forward and backward" : tape_->ops[op].info->name;
}

void Runtime::OnOverrun(Bytes wanted, Bytes budget) {
  // A step that is over its budget anyhow can have its proofs, or none would
  // ever be had where the budget is impossible.
  TORCH_CHECK_WITH(OutOfMemoryError,
                   !Proving::IsSet() || ledger().Peak() > budget,
                   "ebbtide: no room to prove that something repeats");
  if ((overrun_told_ && !settings_.strict) || may_leave_ ||
      state_ == State::kOff) {
    return;
  }
  // Not by waiting for our lock: PyTorch allocates under the lock of a random
  // generator, and we take that under ours.
  std::string where = "one thread while another evicts";
  if (const auto lock =
          RuntimeLock::TryAcquire(std::chrono::milliseconds(200))) {
    where = Here();
  }
  const std::string what =
      absl::StrCat(FormatSize(wanted), " needed in ", where, ", the budget is ",
                   FormatSize(budget), " and nothing is left to evict");
  if (settings_.strict) {
    const std::string report =
        ReportOutOfMemory(device_, "cpu", wanted - ledger().live());
    const std::string text =
        absl::StrCat("ebbtide: ", what, " (EBBTIDE_STRICT)",
                     report.empty() ? "" : "; ", report);
    TORCH_CHECK_WITH(OutOfMemoryError, !Busy::IsSet(), text);
    TORCH_CHECK(false, CpuOutOfMemoryText(wanted - ledger().live()), "\n",
                text);
  }
  // Printed at the first allocation over budget.
  if (!overrun_told_.exchange(true)) {
    SayHere(absl::StrCat("over budget: ", what));
  }
}

std::vector<std::string> Runtime::WhatWouldHelp(const OutOfMemory& what) const {
  std::vector<std::string> helps;
  if (Count(what.budget) >= 0 && what.live + what.request > what.budget) {
    helps.push_back(absl::StrCat("a budget of ",
                                 FormatSize(what.live + what.request),
                                 " has room for this request"));
  }
  if (tape_ != nullptr) {
    const Coverage coverage = FindCoverage(*tape_, residency_.CanSpill());
    if (!residency_.CanSpill()) {
      const TierWords& words = Device::Get().tier_words();
      helps.push_back(absl::StrCat(words.moving, " (", words.allow,
                                   "), for what cannot be recomputed"));
    }
    AddWhatStays(coverage, &helps);
  }
  if (!settings_.recompute && !settings_.weights) {
    helps.emplace_back("recomputing, which EBBTIDE_RECOMPUTE=0 forbids");
  }
  if (settings_.budget && !weights_.is_on()) {
    helps.emplace_back(
        "EBBTIDE_WEIGHTS=1, which moves parameters, gradients and optimizer "
        "state, too");
  }
  helps.emplace_back("a smaller batch");
  return helps;
}

OutOfMemory Runtime::DescribeOutOfMemory(int device, const std::string& name,
                                         Bytes request) {
  const Ledger& ledger = Device::Get().ledger(device);
  OutOfMemory what = {
      .request = request,
      .device = name,
      .budget = ledger.budget() == kNoBudget ? Bytes{-1} : ledger.budget(),
      .live = ledger.live(),
      .live_by_kind = ledger.LiveByKind()};
  // A thread that runs out of memory must not wait for one that recomputes.
  const auto lock = RuntimeLock::TryAcquire(std::chrono::milliseconds(200));
  if (!lock.owns_lock()) {
    for (const Ledger::Block& block : ledger.Largest(kLargest)) {
      what.largest.push_back({.bytes = block.bytes, .kind = block.kind});
    }
    what.helps.emplace_back("nobody could look: another thread was evicting");
    return what;
  }
  what.where = Here();
  what.step = report_.steps.count();
  what.state = NameOf(state_);
  for (const Ledger::Block& block : ledger.Largest(kLargest)) {
    what.largest.push_back(Describe(block, residency_));
  }
  what.floor = FloorText();
  what.helps = WhatWouldHelp(what);
  return what;
}

std::string Runtime::ReportOutOfMemory(int device, const std::string& name,
                                       Bytes request) {
  // ebbtide's own requests may fail without a report.
  if (Busy::IsSet() || state_ == State::kOff || out_of_memory_told_ ||
      out_of_memory_told_.exchange(true)) {
    return "";
  }
  const Busy busy;
  try {
    OutOfMemory what = DescribeOutOfMemory(device, name, request);
    what.file = WriteOutOfMemory(what, FoldersForReports(settings_.report));
    std::string path = what.file;
    const auto lock = RuntimeLock::TryAcquire(std::chrono::milliseconds(200));
    if (lock.owns_lock()) report_.out_of_memory = std::move(what);
    return path.empty() ? path : absl::StrCat("what was alive is in ", path);
  } catch (const std::exception&) {
    return "";  // the program's own error is what counts
  }
}

void Runtime::RaiseWithReport(const c10::OutOfMemoryError& error) {
  const c10::Device here(Device::Get().type(), static_cast<int8_t>(device_));
  const std::string report =
      ReportOutOfMemory(device_, here.is_cpu() ? "cpu" : here.str(), Bytes{});
  if (here.is_cpu()) {
    TORCH_CHECK(false, CpuOutOfMemoryText(Bytes{}), "\n", error.msg(),
                report.empty() ? "" : "; ", report);
  }
  if (report.empty()) throw;
  throw c10::OutOfMemoryError(absl::StrCat(error.msg(), "; ", report),
                              error.backtrace());
}

}  // namespace ebbtide
