// Wraps the device kernels of all operators, and queues what they compute.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cudasim/exact.h"
#include "tests/cudasim/exact_mirror.h"
#include "tests/cudasim/exact_worker.h"
#include "tests/cudasim/wrapped_kernels.h"

namespace cudasim {
namespace {

using torch::jit::Stack;

std::atomic<bool> enabled{true};
std::atomic<uint64_t> ops{0};
// Inside a kernel that is computed as a whole, or was refused.
thread_local int depth = 0;

void Refuse(const OpInfo& info, const std::string& reason) {
  cudasim_break(
      ("exact mode cannot compute " + info.name + ": " + reason).c_str());
}

// The device of the kernel: of its first tensor there, or the one it names.
c10::Device DeviceOf(Values inputs) {
  std::optional<c10::Device> device;
  for (const c10::IValue& value : inputs) {
    ForEachTensor(value, [&](const at::Tensor& t) {
      if (!device && t.is_cuda()) device = t.device();
    });
    if (device) return *device;
  }
  for (const c10::IValue& value : inputs) {
    if (value.isDevice() && value.toDevice().has_index()) {
      return value.toDevice();
    }
  }
  return c10::Device(at::kCUDA, c10::cuda::current_device());
}

bool HasMask(Values inputs) {
  bool found = false;
  for (const c10::IValue& value : inputs) {
    if (!value.isOptionalTensorList()) continue;
    ForEachTensor(value, [&](const at::Tensor& t) {
      found |= t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
    });
  }
  return found;
}

// The simulator moves the bytes of a copy between host and device, or between
// two devices, itself, at its turn; a copy that also converts or rearranges
// calls others that do.
bool IsTransfer(const OpInfo& info, Values inputs) {
  return info.transfer &&
         inputs[0].toTensor().device() != inputs[1].toTensor().device();
}

void* CurrentStream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

// Seed and offset of a generator of the device: what it draws next.
struct RandomState {
  at::Generator generator;
  uint64_t seed;
  uint64_t offset;
};

RandomState RandomStateOf(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return {generator, generator.current_seed(), generator.get_offset()};
}

// Neighbouring offsets give unrelated seeds (splitmix64).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Notes of a kernel from before it runs, completed behind it.
class Recording {
 public:
  Recording(const OpInfo& info, Values inputs);
  // Throws where the op cannot be computed.
  void Finish(Values outputs);

 private:
  void NoteArguments(Values inputs);
  void NoteRandomState(Values inputs);
  void NoteWritten();
  void NoteResults(Values outputs);
  void NoteSeed();
  bool WritesHost() const;
  void Queue();

  const OpInfo& info_;
  c10::Device device_;
  std::unique_ptr<Mirror> mirror_ = std::make_unique<Mirror>();
  std::vector<at::Tensor> written_;  // an out= may be resized until the end
  std::optional<RandomState> random_;
};

Recording::Recording(const OpInfo& info, Values inputs)
    : info_(info), device_(DeviceOf(inputs)) {
  mirror_->info = &info;
  mirror_->grad_mode = c10::GradMode::is_enabled();
  NoteArguments(inputs);
  NoteRandomState(inputs);
}

void Recording::NoteArguments(Values inputs) {
  const auto& schema = info_.op.schema().arguments();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* const alias = schema[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    mirror_->arguments.push_back(ArgumentOf(inputs[i], !written));
    if (!written) continue;
    mirror_->arguments.back().written = true;
    ForEachTensor(inputs[i],
                  [&](const at::Tensor& t) { written_.push_back(t); });
  }
}

// A generator's offset cannot be read while its stream captures.
void Recording::NoteRandomState(Values inputs) {
  if (cudasim_is_capturing(CurrentStream(device_)) != 0) return;
  at::Generator generator;
  if (info_.generator >= 0 && inputs[info_.generator].isGenerator()) {
    generator = inputs[info_.generator].toGenerator();
  }
  if (!generator.defined()) {
    generator = at::globalContext().defaultGenerator(device_);
  }
  random_ = RandomStateOf(generator);
}

void Recording::Finish(Values outputs) {
  NoteWritten();
  NoteResults(outputs);
  NoteSeed();
  Queue();
}

void Recording::NoteWritten() {
  size_t next = 0;
  for (Argument& argument : mirror_->arguments) {
    if (!argument.written) continue;
    for (auto& image : argument.images) {
      if (image) image = ImageOf(written_[next++]);
    }
  }
}

void Recording::NoteResults(Values outputs) {
  const auto& schema = info_.op.schema().returns();
  for (size_t i = 0; i < outputs.size(); ++i) {
    mirror_->fresh.push_back(schema[i].alias_info() == nullptr);
    mirror_->results.push_back(
        mirror_->fresh.back() ? ArgumentOf(outputs[i], false) : Argument());
  }
}

void Recording::NoteSeed() {
  if (!random_) {
    TORCH_CHECK(!info_.seeded,
                "it may draw random numbers while its stream captures");
    return;
  }
  const RandomState now = RandomStateOf(random_->generator);
  if (now.seed == random_->seed && now.offset == random_->offset) return;
  TORCH_CHECK(info_.CanDraw(),
              "it draws random numbers and takes no generator");
  mirror_->seed = Mix(random_->seed ^ Mix(random_->offset));
}

// The program may read host memory as soon as the op returns.
bool Recording::WritesHost() const {
  const auto on_host = [](const Argument& argument) {
    return std::any_of(
        argument.images.begin(), argument.images.end(),
        [](const auto& image) { return image && !image->on_device; });
  };
  for (const Argument& argument : mirror_->arguments) {
    if (argument.written && on_host(argument)) return true;
  }
  for (size_t i = 0; i < mirror_->results.size(); ++i) {
    if (mirror_->fresh[i] && on_host(mirror_->results[i])) return true;
  }
  return false;
}

void RunMirror(void* argument) {
  const auto& mirror = *static_cast<const Mirror*>(argument);
  Worker::Get().Run([&mirror] {
    try {
      mirror.Run();
    } catch (const c10::Error& error) {
      Refuse(*mirror.info, error.what_without_backtrace());
    } catch (const std::exception& error) {
      Refuse(*mirror.info, error.what());
    }
  });
}

void Recording::Queue() {
  const bool wait = WritesHost();
  const c10::cuda::CUDAGuard guard(device_);
  void* const stream = CurrentStream(device_);
  const std::vector<CudasimAccess> accesses = mirror_->Accesses();
  const CudasimWork work{
      .name = info_.name.c_str(),
      .ns = 0,
      .function = RunMirror,
      .destroy = [](void* mirror) { delete static_cast<Mirror*>(mirror); },
      .argument = mirror_.release(),
      .accesses = accesses.data(),
      .access_count = accesses.size()};
  TORCH_CHECK(cudasim_enqueue(stream, &work) == 0,
              "its stream is none of the device's");
  ++ops;
  if (wait) cudasim_wait(stream);
}

// While a kernel runs whose results are computed, its own writes are void, and
// the kernels it calls are parts of it.
class Inside {
 public:
  Inside() {
    ++depth;
    cudasim_shadow_begin();
  }
  ~Inside() {
    --depth;
    cudasim_shadow_end();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// The calls made to note an op are no calls of the program's.
class Aside {
 public:
  Aside() { cudasim_aside_begin(); }
  ~Aside() { cudasim_aside_end(); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
};

// In the place of an operator's kernel for the device.
class Kernel : public c10::OperatorKernel {
 public:
  Kernel(OpInfo info, c10::SafeKernelFunction original)
      : info_(std::move(info)), original_(std::move(original)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) {
    const Values inputs = Last(*stack, op.schema().arguments().size());
    if (depth > 0 || !enabled || IsTransfer(info_, inputs) ||
        IsLoop(info_, inputs)) {
      original_.callBoxed(op, keys, stack);
      return;
    }
    const std::unique_ptr<Recording> recording = Record(inputs);
    {
      const Inside inside;
      original_.callBoxed(op, keys, stack);
    }
    if (!recording) return;
    const Aside aside;
    try {
      recording->Finish(Last(*stack, op.schema().returns().size()));
    } catch (const c10::Error& error) {
      Refuse(info_, error.what_without_backtrace());
    }
  }

 private:
  // Null where the op is refused.
  std::unique_ptr<Recording> Record(Values inputs) {
    if (info_.treatment == Treatment::kRefuse) {
      Refuse(info_, info_.refusal);
    } else if (info_.dynamic_index && HasMask(inputs)) {
      Refuse(info_, "its shape depends on a mask");
    } else {
      const Aside aside;
      try {
        return std::make_unique<Recording>(info_, inputs);
      } catch (const c10::Error& error) {
        Refuse(info_, error.what_without_backtrace());
      }
    }
    return nullptr;
  }

  const OpInfo info_;
  const c10::SafeKernelFunction original_;
};

void Wrap(const c10::OperatorHandle& op) {
  constexpr auto kKey = c10::DispatchKey::CUDA;
  OpInfo info = InfoOf(op);
  if (info.treatment == Treatment::kNothing ||
      !op.hasComputedKernelForDispatchKey(kKey)) {
    return;
  }
  auto kernel = std::make_unique<Kernel>(
      std::move(info), op.getComputedKernelForDispatchKey(kKey));
  Replace(op, std::move(kernel));
}

void Watch(const c10::CachingDeviceAllocator::TraceEntry& entry) {
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the entry has a number
  const void* const block = reinterpret_cast<const void*>(entry.addr_);
  if (entry.action_ == Entry::ALLOC) {
    cudasim_block_taken_on(block, entry.size_, entry.stream_);
  } else if (entry.action_ == Entry::FREE_COMPLETED) {
    cudasim_block_freed(block, entry.size_);
  }
}

}  // namespace
}  // namespace cudasim

extern "C" {

void cudasim_exact_install() { cudasim::WrapAll(cudasim::Wrap); }

void cudasim_exact_enable(int enabled) { cudasim::enabled = enabled != 0; }

uint64_t cudasim_exact_ops() { return cudasim::ops; }

void cudasim_exact_watch_blocks() {
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(cudasim::Watch);
}

}  // extern "C"
