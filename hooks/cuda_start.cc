#include "hooks/cuda_start.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_device_arena.h"
#include "hooks/cuda_device.h"
#include "hooks/recorder.h"
#include "hooks/runtime.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;

struct State {
  std::vector<DeviceBudget> budgets;
  bool may_speak = false;
  bool only_records = false;
  pid_t process = 0;  // that was started; its children are not managed
};
State& TheState() {
  static auto& state = *new State;
  return state;
}

// Its tensors are managed from now on.
void Manage(std::optional<Bytes> budget) {
  const auto api = CudaApi::Loaded();
  if (!api.ok()) return;
  static CudaDevice& device = *new CudaDevice(*api, c10::cuda::device_count());
  Runtime::Global().MoveTo(&device, budget);
}

// One size, without a device.
bool IsUnnamed() {
  return !TheState().budgets.empty() && TheState().budgets[0].device.empty();
}

bool IsChild() { return TheState().process != getpid(); }

void Say(const std::string& line) {
  if (!TheState().may_speak || IsChild()) return;
  std::fprintf(stderr, "ebbtide: %s\n", line.c_str());
}

std::string NameOf(DeviceIndex device) {
  return absl::StrCat("cuda:", static_cast<int>(device));
}

Bytes BudgetOf(DeviceIndex device, const CudaAllocator::Room& room) {
  const Amount* const asked =
      IsChild() ? nullptr : AmountForCuda(TheState().budgets, device);
  if (asked == nullptr) {
    if (TheState().only_records && !IsChild()) Manage(std::nullopt);
    return kNoBudget;
  }
  const std::string name = NameOf(device);
  // PyTorch then takes each block from the runtime, past its own allocator.
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    Say(absl::StrCat(name,
                     " has no budget: PYTORCH_NO_CUDA_MEMORY_CACHING "
                     "hides its memory"));
    if (IsUnnamed()) Runtime::Global().LeaveCpu();
    return kNoBudget;
  }
  if (!CudaAllocator::SeesBlocks()) {
    if (IsUnnamed()) Runtime::Global().LeaveCpu();
    Say(absl::StrCat(name,
                     ": of the allocator cudaMallocAsync only statistics "
                     "are seen; the budget is held by them"));
  }
  const Bytes ours = room.free + room.reserved;
  const Bytes budget = Resolve(*asked, room.total, ours);
  if (CudaAllocator::SeesBlocks()) Manage(std::min(budget, room.total));
  if (budget > room.total) {
    Say(absl::StrCat(name, " has ", FormatSize(room.total), ", not the ",
                     FormatSize(budget),
                     " of its budget; it may use all of it"));
    return room.total;
  }
  if (room.reserved > budget) {
    Say(absl::StrCat(name, ": ", FormatSize(room.reserved),
                     " were reserved before ebbtide came, more than the budget "
                     "of ",
                     FormatSize(budget)));
  } else if (budget > ours && budget < room.total) {
    Say(absl::StrCat(name, ": only ", FormatSize(ours), " of the budget of ",
                     FormatSize(budget),
                     " are free; the rest is used by others"));
  }
  return budget;
}

void OnNoArena(DeviceIndex device, const absl::Status& why) {
  Say(absl::StrCat(NameOf(device), ": memory is not mapped in pages (",
                   why.message(),
                   "): PyTorch's segments go back whole only, so more is "
                   "evicted"));
}

std::string LiveByKind(const Ledger& ledger) {
  const BytesByKind live = ledger.LiveByKind();
  std::vector<std::string> kinds;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (live[kind] == Bytes{0}) continue;
    kinds.push_back(absl::StrCat(KindName(static_cast<Kind>(kind)), " ",
                                 FormatSize(live[kind])));
  }
  return kinds.empty() ? "nothing" : absl::StrJoin(kinds, ", ");
}

// Without a call to it, after which a child of fork could not use the device.
bool HasDriver() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

std::map<std::string, ArenaReport::Mismatches> MismatchesByOp(
    const StepArena::Facts& facts) {
  std::map<std::string, ArenaReport::Mismatches> by_op;
  for (const auto& [op, what] : facts.mismatches_by_op) {
    by_op[op] = {.requests = what.requests, .bytes = Bytes{what.bytes}};
  }
  return by_op;
}

std::optional<ArenaReport> ReportArena(DeviceIndex device) {
  const DeviceArena* const arena = CudaAllocator::ArenaOf(device);
  if (arena == nullptr) return std::nullopt;
  const StepArena::Facts facts = arena->facts();
  const ArenaCounts& counts = facts.pages.counts;
  return ArenaReport{.state = NameOf(facts.state),
                     .reason = facts.reason,
                     .height = facts.height,
                     .bound = facts.bound,
                     .size = facts.pages.planned,
                     .moves = facts.pages.moves,
                     .beside = facts.beside,
                     .beside_alive = facts.beside_alive,
                     .retreats = facts.retreats,
                     .planned = counts.planned,
                     .planned_bytes = Bytes{counts.planned_bytes},
                     .elsewhere = facts.pages.elsewhere,
                     .elsewhere_bytes = Bytes{facts.pages.elsewhere_bytes},
                     .mismatches = counts.mismatches(),
                     .mismatches_by_op = MismatchesByOp(facts)};
}

// The largest that are alive, and who made them.
std::string LargestAlive(const DeviceBooks& books) {
  constexpr size_t kMost = 10;
  const std::vector<Ledger::Block> alive = books.ledger().Largest(kMost);
  std::vector<const void*> blocks;
  for (const Ledger::Block& block : alive) blocks.push_back(block.address);
  const std::vector<std::string> makers = Runtime::Global().MakersOf(blocks);
  std::vector<std::string> texts;
  for (size_t i = 0; i < alive.size(); ++i) {
    texts.push_back(absl::StrCat(
        FormatSize(alive[i].bytes), " of ",
        makers[i].empty() ? "no op of this step" : makers[i].c_str()));
  }
  return absl::StrJoin(texts, ", ");
}

// Describes a laid-out arena: its height, and the requests that were not as
// planned.
std::string ExplainArena(DeviceIndex device) {
  const std::optional<ArenaReport> arena = ReportArena(device);
  if (!arena || arena->height == Bytes{0}) return "";
  std::string text = absl::StrCat(
      "\nebbtide: addresses planned for steps take ", FormatSize(arena->height),
      ", none can take less than ", FormatSize(arena->bound), "; ",
      FormatSize(arena->planned_bytes), " were served from them and ",
      FormatSize(arena->elsewhere_bytes), " from elsewhere in them");
  for (const auto& [op, what] : arena->mismatches_by_op) {
    absl::StrAppend(&text, "\nebbtide: not as planned: ", what.requests,
                    " requests of ", op, ", ", FormatSize(what.bytes));
  }
  return text;
}

std::string Explain(DeviceIndex device, Bytes wanted) {
  const DeviceBooks& books = BooksOf(device);
  const Bytes budget = CudaAllocator::BudgetOf(device);
  std::string text =
      absl::StrCat("ebbtide: ", FormatSize(wanted), " were asked for on ",
                   NameOf(device), ", whose budget is ", FormatSize(budget));
  const std::string op = CurrentOpName();
  if (!op.empty()) absl::StrAppend(&text, "; by ", op);
  if (CudaAllocator::SeesBlocks()) {
    const Bytes reserved = books.reserved();
    const Bytes live = books.ledger().live();
    const DeviceArena* const arena = CudaAllocator::ArenaOf(device);
    const Bytes free = arena == nullptr ? Bytes{0} : arena->facts().pages.free;
    absl::StrAppend(&text, "\nebbtide: alive: ", FormatSize(live), " (",
                    LiveByKind(books.ledger()), "); ",
                    FormatSize(reserved - live), " more are reserved, ",
                    FormatSize(free), " of it in pages that are free",
                    "\nebbtide: the largest alive: ", LargestAlive(books));
    const Bytes missing =
        reserved - free + RoundUp(static_cast<size_t>(Count(wanted))) - budget;
    if (missing > Bytes{0}) {
      absl::StrAppend(&text, "\nebbtide: with ", FormatSize(missing),
                      " more of budget it would have been served");
    }
    text += ExplainArena(device);
  }
  const std::string floor = Runtime::Global().KnownFloor();
  absl::StrAppend(&text, "\nebbtide: ",
                  floor.empty() ? "the floor is not known yet; a smaller batch "
                                  "lowers what is needed"
                                : floor);
  std::string report;
  if (Device::Get().is_async()) {
    report =
        Runtime::Global().ReportOutOfMemory(device, NameOf(device), wanted);
  }
  if (!report.empty()) absl::StrAppend(&text, "\nebbtide: ", report);
  return text;
}

}  // namespace

void StartCuda(const Settings& settings) {
  State& state = TheState();
  state.budgets = settings.cuda_budgets;
  state.may_speak = settings.log != Settings::Log::kOff;
  state.only_records = state.budgets.empty() && !settings.budget;
  state.process = getpid();
  const absl::Status installed =
      CudaAllocator::Install({.relieve = &CudaDevice::Relieve,
                              .budget = &BudgetOf,
                              .explain = &Explain,
                              .on_no_arena = &OnNoArena,
                              .name_op = &CurrentOpName});
  if (state.budgets.empty()) return;
  if (!installed.ok()) {
    Say(absl::StrCat("CUDA memory is left alone: ", installed.message()));
  } else if (IsUnnamed() && HasDriver()) {
    Runtime::Global().AwaitCuda();
  }
}

CudaReport ReportCuda() {
  CudaReport report;
  report.allocator = c10::cuda::CUDACachingAllocator::get()->name();
  report.is_ours = CudaAllocator::IsInPlace();
  for (const DeviceIndex device : CudaAllocator::UsedDevices()) {
    DeviceBooks& books = BooksOf(device);
    const Bytes budget = CudaAllocator::BudgetOf(device);
    report.devices.push_back(
        {.name = NameOf(device),
         .budget = budget == kNoBudget ? Bytes{-1} : budget,
         .reserved_peak = books.ReservedPeak(),
         .peak = books.ledger().RunPeak(),
         .arena = ReportArena(device)});
  }
  return report;
}

}  // namespace ebbtide
