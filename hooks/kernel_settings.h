// The settings outside its arguments that a kernel reads, besides grad
// mode, threads and generator: they decide which algorithm runs, and so the
// bits.
//
// Taken per recorded op, so reading them allocates nothing (about 0.1 us).
// Settings are global to the process, except the floating-point mode, which is
// the thread's own: while a recomputation has changed them, ops on other
// threads of the program see them changed too. That can happen only where the
// script itself changes them between a forward pass and its backward.
#ifndef EBBTIDE_HOOKS_KERNEL_SETTINGS_H_
#define EBBTIDE_HOOKS_KERNEL_SETTINGS_H_

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

namespace ebbtide {

struct KernelSettings {
  uint32_t switches = 0;  // switches of at::Context, in ebbtide's own order
  // Rounding, flush-to-zero and denormals-are-zero of this thread.
  uint32_t float_mode = 0;
  // Precision to which oneDNN, or cuBLAS and cuDNN, may round float32 in
  // convolutions, recurrent nets and products. kUnread for ops that do none of
  // these: any precision will do.
  static constexpr int8_t kUnread = -1;
  std::array<int8_t, 3> precision = {kUnread, kUnread, kUnread};
  at::ScalarType default_type = at::ScalarType::Float;

  bool operator==(const KernelSettings&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const KernelSettings& s) {
    return H::combine(std::move(h), s.switches, s.float_mode, s.precision[0],
                      s.precision[1], s.precision[2],
                      static_cast<int>(s.default_type));
  }
};

// Those of this thread, now; `precision` on demand, since reading it takes
// longer than all else.
KernelSettings CurrentKernelSettings(bool precision);

// While it lives, `settings` hold; those of before come back.
class KernelSettingsScope {
 public:
  explicit KernelSettingsScope(const KernelSettings& settings);
  ~KernelSettingsScope();
  KernelSettingsScope(const KernelSettingsScope&) = delete;
  KernelSettingsScope& operator=(const KernelSettingsScope&) = delete;

 private:
  // As set, not as inherited: general, the backend, and its three kinds of op.
  using Precisions = std::array<int8_t, 5>;
  static Precisions OwnPrecisions();

  const bool precise_;
  const KernelSettings outer_;
  const bool differ_;
  Precisions precisions_ = {};
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_KERNEL_SETTINGS_H_
