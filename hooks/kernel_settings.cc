#include "hooks/kernel_settings.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>

#include "hooks/device.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ebbtide {
namespace {

using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;

struct Switch {
  bool (*get)(const at::Context& context);
  void (*set)(at::Context* context, bool on);
};

#define EBBTIDE_SWITCH(getter, setter)                         \
  Switch {                                                     \
    [](const at::Context& context) { return context.getter; }, \
        [](at::Context* context, bool on) { context->setter; } \
  }

constexpr Switch kSwitches[] = {
    EBBTIDE_SWITCH(userEnabledMkldnn(), setUserEnabledMkldnn(on)),
    EBBTIDE_SWITCH(deterministicMkldnn(), setDeterministicMkldnn(on)),
    EBBTIDE_SWITCH(userEnabledNNPACK(), setUserEnabledNNPACK(on)),
    EBBTIDE_SWITCH(deterministicFillUninitializedMemory(),
                   setDeterministicFillUninitializedMemory(on)),
    EBBTIDE_SWITCH(userEnabledFlashSDP(), setSDPUseFlash(on)),
    EBBTIDE_SWITCH(userEnabledMathSDP(), setSDPUseMath(on)),
    EBBTIDE_SWITCH(userEnabledMemEfficientSDP(), setSDPUseMemEfficient(on)),
    EBBTIDE_SWITCH(allowFP16BF16ReductionMathSDP(),
                   setAllowFP16BF16ReductionMathSDP(on)),
    EBBTIDE_SWITCH(allowFP16ReductionCPU(), setAllowFP16ReductionCPU(on)),
    EBBTIDE_SWITCH(deterministicAlgorithms(),
                   setDeterministicAlgorithms(
                       on, context->deterministicAlgorithmsWarnOnly())),
    EBBTIDE_SWITCH(
        deterministicAlgorithmsWarnOnly(),
        setDeterministicAlgorithms(context->deterministicAlgorithms(), on)),
};

// cuBLAS may sum in a smaller type, or else at least split sums up.
template <at::CuBLASReductionOption (at::Context::*get)() const,
          void (at::Context::*set)(bool, bool)>
constexpr Switch kReducedPrecision = {
    [](const at::Context& context) {
      return (context.*get)() ==
             at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
    },
    [](at::Context* context, bool on) { (context->*set)(on, true); }};
// After the one above.
template <at::CuBLASReductionOption (at::Context::*get)() const,
          void (at::Context::*set)(bool, bool)>
constexpr Switch kSplitSums = {
    [](const at::Context& context) {
      return (context.*get)() !=
             at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK;
    },
    [](at::Context* context, bool on) {
      if (!on) (context->*set)(false, false);
    }};

// Switches that only CUDA kernels read.
constexpr Switch kCudaSwitches[] = {
    EBBTIDE_SWITCH(userEnabledCuDNN(), setUserEnabledCuDNN(on)),
    EBBTIDE_SWITCH(deterministicCuDNN(), setDeterministicCuDNN(on)),
    EBBTIDE_SWITCH(benchmarkCuDNN(), setBenchmarkCuDNN(on)),
    EBBTIDE_SWITCH(userEnabledCuDNNSDP(), setSDPUseCuDNN(on)),
    EBBTIDE_SWITCH(allowFP16AccumulationCuBLAS(),
                   setAllowFP16AccumulationCuBLAS(on)),
    kReducedPrecision<&at::Context::allowFP16ReductionCuBLAS,
                      &at::Context::setAllowFP16ReductionCuBLAS>,
    kSplitSums<&at::Context::allowFP16ReductionCuBLAS,
               &at::Context::setAllowFP16ReductionCuBLAS>,
    kReducedPrecision<&at::Context::allowBF16ReductionCuBLAS,
                      &at::Context::setAllowBF16ReductionCuBLAS>,
    kSplitSums<&at::Context::allowBF16ReductionCuBLAS,
               &at::Context::setAllowBF16ReductionCuBLAS>,
};
#undef EBBTIDE_SWITCH

// Calls visit(switch, its bit) for those that kernels of the device read.
template <typename Visit>
void ForEachSwitch(Visit visit) {
  uint32_t bit = 1;
  for (const Switch& one : kSwitches) {
    visit(one, bit);
    bit <<= 1;
  }
  if (!Device::Get().is_async()) return;
  for (const Switch& one : kCudaSwitches) {
    visit(one, bit);
    bit <<= 1;
  }
}

constexpr Float32Op kPreciseOps[] = {Float32Op::CONV, Float32Op::RNN,
                                     Float32Op::MATMUL};

int8_t Precision(Float32Backend backend, Float32Op op) {
  return static_cast<int8_t>(at::globalContext().float32Precision(backend, op));
}

void SetPrecision(Float32Backend backend, Float32Op op, int8_t precision) {
  at::globalContext().setFloat32Precision(
      backend, op, static_cast<Float32Precision>(precision));
}

// The one that computes on the device.
Float32Backend Backend() {
  return Device::Get().is_async() ? Float32Backend::CUDA
                                  : Float32Backend::MKLDNN;
}

struct PrecisionSlot {
  bool is_generic;  // and not of the device's backend
  Float32Op op;
  int parent;  // where it looks when nothing is set for itself
};
constexpr PrecisionSlot kSlots[] = {
    {true, Float32Op::ALL, -1},    {false, Float32Op::ALL, 0},
    {false, Float32Op::CONV, 1},   {false, Float32Op::RNN, 1},
    {false, Float32Op::MATMUL, 1},
};
constexpr int kFirstOp = 2;
constexpr auto kNone = static_cast<int8_t>(Float32Precision::NONE);

Float32Backend BackendOf(const PrecisionSlot& slot) {
  return slot.is_generic ? Float32Backend::GENERIC : Backend();
}

void SetSlot(int slot, int8_t precision) {
  SetPrecision(BackendOf(kSlots[slot]), kSlots[slot].op, precision);
}

#if defined(__x86_64__)
// Everything but the sticky exception flags.
constexpr uint32_t kFloatMode = ~uint32_t{0x3f};

uint32_t FloatMode() { return _mm_getcsr() & kFloatMode; }

void SetFloatMode(uint32_t mode) {
  _mm_setcsr(mode | (_mm_getcsr() & ~kFloatMode));
}
#elif defined(__aarch64__)
uint32_t FloatMode() {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return static_cast<uint32_t>(mode);
}

void SetFloatMode(uint32_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{mode}));
}
#else
#error "the floating-point mode of this processor: see FloatMode"
#endif

void Apply(const KernelSettings& settings) {
  at::Context& context = at::globalContext();
  ForEachSwitch([&](const Switch& one, uint32_t bit) {
    one.set(&context, (settings.switches & bit) != 0);
  });
  SetFloatMode(settings.float_mode);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(settings.default_type));
}

}  // namespace

KernelSettings CurrentKernelSettings(bool precision) {
  const at::Context& context = at::globalContext();
  KernelSettings settings;
  ForEachSwitch([&](const Switch& one, uint32_t bit) {
    if (one.get(context)) settings.switches |= bit;
  });
  settings.float_mode = FloatMode();
  for (size_t i = 0; precision && i < settings.precision.size(); ++i) {
    settings.precision[i] = Precision(Backend(), kPreciseOps[i]);
  }
  settings.default_type = c10::get_default_dtype_as_scalartype();
  return settings;
}

// PyTorch reports the effective value of a slot, not whether it was set there:
// a slot that follows its parent when that is changed has no value of its own.
KernelSettingsScope::Precisions KernelSettingsScope::OwnPrecisions() {
  Precisions own = {};
  own[0] = Precision(BackendOf(kSlots[0]), kSlots[0].op);
  for (size_t i = 1; i < own.size(); ++i) {
    const auto with_parent = [i](Float32Precision precision) {
      SetSlot(kSlots[i].parent, static_cast<int8_t>(precision));
      return Precision(BackendOf(kSlots[i]), kSlots[i].op);
    };
    const int8_t first = with_parent(Float32Precision::IEEE);
    const int8_t second = with_parent(Float32Precision::TF32);
    SetSlot(kSlots[i].parent, own[kSlots[i].parent]);
    own[i] = first == second ? first : kNone;
  }
  return own;
}

KernelSettingsScope::KernelSettingsScope(const KernelSettings& settings)
    : precise_(settings.precision[0] != KernelSettings::kUnread),
      outer_(CurrentKernelSettings(precise_)),
      differ_(!(settings == outer_)) {
  if (!differ_) return;
  Apply(settings);
  if (!precise_) return;
  precisions_ = OwnPrecisions();
  SetSlot(0, kNone);
  SetSlot(1, kNone);
  for (size_t i = 0; i < settings.precision.size(); ++i) {
    SetSlot(kFirstOp + static_cast<int>(i), settings.precision[i]);
  }
}

KernelSettingsScope::~KernelSettingsScope() {
  if (!differ_) return;
  for (size_t i = 0; precise_ && i < precisions_.size(); ++i) {
    SetSlot(static_cast<int>(i), precisions_[i]);
  }
  Apply(outer_);
}

}  // namespace ebbtide
