#include "hooks/cpu_device.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "allocator/torch_cpu_allocator.h"
#include "hooks/busy.h"
#include "hooks/file_tier.h"
#include "hooks/guarded.h"

namespace ebbtide {
namespace {

Device::Callbacks callbacks_in_use;

}  // namespace

CpuDevice::CpuDevice()
    : Device(c10::DeviceType::CPU, /*is_async=*/false,
             c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutocastCPU) {
  ledgers_ = {&HostAllocator::Global().ledger()};
}

CpuDevice& CpuDevice::Global() {
  static CpuDevice& device = *new CpuDevice;
  return device;
}

Device::Facts CpuDevice::FactsOf(int /*index*/) const {
  Facts facts;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.empty()) {  // the first processor
                                                       // only
    const std::pair<std::string, std::string> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(field.second);
    if (absl::StartsWith(line, "model name")) facts.name = std::string(value);
    if (absl::StartsWith(line, "cpu MHz") &&
        !absl::SimpleAtod(value, &facts.megahertz)) {
      facts.megahertz = 0;
    }
  }
  return facts;
}

absl::Status CpuDevice::Install(const Settings& settings,
                                const Callbacks& callbacks) {
  callbacks_in_use = callbacks;
  HostAllocator& allocator = HostAllocator::Global();
  if (settings.budget) allocator.SetBudget(*settings.budget);
  allocator.SetPressureHandler([](Bytes needed) {
    return callbacks_in_use.relieve({.needed = needed});
  });
  allocator.SetOverrunHandler(callbacks.on_overrun);
  SetFreeObserver(&BeforeFree);
  SetExplainer(callbacks.explain, [] { return Busy::IsSet(); });
  InstallCpuAllocator();
  return absl::OkStatus();
}

Device::Room CpuDevice::RoomOf(int /*index*/) const {
  return {.total = CpuBytes(), .free = FreeCpuBytes()};
}

void CpuDevice::SetBudget(int /*index*/, Bytes budget) {
  HostAllocator::Global().SetBudget(budget);
}

// Large blocks take whole pages.
Bytes CpuDevice::SizeOnDevice(size_t bytes) const {
  const Bytes size{static_cast<int64_t>(bytes)};
  return HostAllocator::IsLarge(bytes) ? RoundUpToPage(size) : size;
}

c10::Storage CpuDevice::Allocate(size_t bytes, int /*index*/) {
  return NewStorage(bytes);
}

bool CpuDevice::IsReclaimable(const c10::Storage& storage) const {
  return IsFromOurAllocator(storage);
}

c10::Storage CpuDevice::CopyOf(const c10::Storage& bytes) {
  c10::Storage copy = NewStorage(bytes.nbytes());
  std::memcpy(copy.mutable_data(), bytes.data(), bytes.nbytes());
  return copy;
}

at::Generator CpuDevice::DefaultGenerator(int /*index*/) {
  return at::detail::getDefaultCPUGenerator();
}

void CpuDevice::SetState(const at::Tensor& state, at::Generator* generator) {
  generator->set_state(state);
}

c10::Stream CpuDevice::CurrentStream(int /*index*/) {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CPU));
}
void CpuDevice::Order(const c10::Stream& /*before*/,
                      const c10::Stream& /*after*/) {}
void CpuDevice::KeepFor(const c10::Storage& /*storage*/,
                        const c10::Stream& /*stream*/) {}

absl::StatusOr<std::unique_ptr<HostTier>> CpuDevice::OpenTier(
    const Settings& settings) {
  if (settings.spill_dir.empty()) return std::unique_ptr<HostTier>();
  return FileTier::Open(settings.spill_dir, settings.spill_limit);
}

}  // namespace ebbtide
