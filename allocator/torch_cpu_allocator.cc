#include "allocator/torch_cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

void (*observe_free)(void* block) = nullptr;
std::string (*explain)(Bytes request) = nullptr;
bool (*is_request_own)() = nullptr;

[[noreturn]] void ThrowOutOfMemory(size_t size) {
  std::string more;
  // No larger one is a size.
  if (explain != nullptr && size <= size_t{INT64_MAX}) {
    more = explain(Bytes{static_cast<int64_t>(size)});
  }
  TORCH_CHECK_WITH(OutOfMemoryError,
                   is_request_own == nullptr || !is_request_own(),
                   "ebbtide: the system has no ", size, " bytes left");
  try {
    c10::free_cpu(c10::alloc_cpu(size));
  } catch (const c10::Error& error) {
    if (more.empty()) throw;
    throw c10::Error(absl::StrCat(error.msg(), "\nebbtide: ", more),
                     error.backtrace());
  }
  TORCH_CHECK(false, CpuOutOfMemoryText(Bytes{static_cast<int64_t>(size)}),
              more.empty() ? "" : "\nebbtide: ", more);
}

void NoteFree(void* block) {
  if (observe_free != nullptr) observe_free(block);
  // For torch.profiler's profile_memory, which has its own switch.
  c10::profiledCPUMemoryReporter().Delete(block);
}

void DeleteSmall(void* block) {
  NoteFree(block);
  HostAllocator::Global().FreeSmall(block);
}

void DeleteLarge(void* block) {
  NoteFree(block);
  HostAllocator::Global().FreeLarge(block);
}

void DeleteEither(void* block) {
  NoteFree(block);
  HostAllocator::Global().Free(block);
}

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &DeleteSmall, cpu};
    void* block =
        HostAllocator::Global().Allocate(size, AllocationKind::Current());
    if (block == nullptr) ThrowOutOfMemory(size);
    c10::profiledCPUMemoryReporter().New(block, size);
    const int fill = AllocationFill::Current();
    if (fill >= 0) std::memset(block, fill, size);
    // Context and data are the same, which keeps raw_allocate working.
    return {block, block,
            HostAllocator::IsLarge(size) ? &DeleteLarge : &DeleteSmall, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &DeleteEither; }

  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

}  // namespace

void InstallCpuAllocator() {
  static CpuAllocator& allocator = *new CpuAllocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

void SetFreeObserver(void (*observer)(void* block)) { observe_free = observer; }

std::string CpuOutOfMemoryText(Bytes request) {
  const std::string text = "DefaultCPUAllocator: can't allocate memory";
  if (request == Bytes{}) return text;
  return absl::StrCat(text, ": you tried to allocate ", Count(request),
                      " bytes. Error code 12 (Cannot allocate memory)");
}

void SetExplainer(std::string (*explainer)(Bytes request), bool (*is_own)()) {
  explain = explainer;
  is_request_own = is_own;
}

c10::Storage NewStorage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      c10::GetCPUAllocator(), /*resizable=*/true);
}

bool IsFromOurAllocator(const c10::Storage& storage) {
  // Without the check of storages that are to raise: those give nothing back.
  const c10::DeleterFnPtr deleter = storage.unsafeGetStorageImpl()
                                        ->_mutable_data_ptr_no_checks()
                                        .get_deleter();
  return deleter == &DeleteLarge || deleter == &DeleteSmall;
}

}  // namespace ebbtide
