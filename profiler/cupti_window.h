// A stretch of the program's run in which CUPTI records what the device does:
// kernels, copies and sets, the calls that started them, and the external ids
// pushed meanwhile. Opt-in: whoever begins a window says that it may be.
//
// CUPTI's activity interface is one per process, and the last who registers
// callbacks has it. So a window never begins where another profiler is, and
// leaves nothing behind: every kind is disabled at its end, and what CUPTI then
// still asks for is declined. (CUPTI has no way to take callbacks back.)
#ifndef EBBTIDE_PROFILER_CUPTI_WINDOW_H_
#define EBBTIDE_PROFILER_CUPTI_WINDOW_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiler/cupti_api.h"
#include "profiler/cupti_collector.h"
#include "profiler/cupti_records.h"

namespace ebbtide {

struct CuptiWindowOptions {
  CuptiCollector::Limits limits;
  // How long the end waits for buffers after CUPTI was made to flush them.
  std::chrono::nanoseconds patience = std::chrono::seconds(2);
  // Buffers that CUPTI may reserve on the device, of about 3 MiB each; its own
  // limit of 250 would be a large part of a budget.
  size_t device_buffers = 8;
  // The name of a profiler that is active in this process, or nothing. Kineto
  // uses the activity interface without a subscriber, which PyTorch reports but
  // CUPTI does not.
  std::function<std::string()> other_profiler;
};

class CuptiWindow {
 public:
  // Refuses, with the reason, if another profiler is active (one that
  // `other_profiler` names; one that the driver loads by CUDA_INJECTION64_PATH;
  // one that holds CUPTI's only subscriber, error 39), if a call fails, and for
  // an unknown version of CUPTI. Nothing is enabled then. `api` must outlive
  // the process.
  static absl::StatusOr<std::unique_ptr<CuptiWindow>> Begin(
      const CuptiApi& api, const CuptiWindowOptions& options = {});
  // Ends the window, if that was not done.
  ~CuptiWindow();
  CuptiWindow(const CuptiWindow&) = delete;
  CuptiWindow& operator=(const CuptiWindow&) = delete;

  // Work that this thread starts from now on belongs to `id`, until the Pop of
  // this thread that belongs to it. Pairs nest; the innermost counts. On any
  // thread, without locks.
  void Push(uint64_t id);
  void Pop();

  // All records since Begin. The program must have waited for the device,
  // because CUPTI has no times of what still runs. Any error says why they
  // cannot be had complete: records were dropped, cut off or damaged, buffers
  // were declined or did not come back, a call failed, or another profiler has
  // begun meanwhile. In that case its kinds may be ours, and nothing is
  // disabled; the next window's end does it, or DisableAll. Once.
  absl::StatusOr<CuptiRecords> End();

  // Disables all that windows enable, for when such a profiler is gone.
  static absl::Status DisableAll(const CuptiApi& api);

 private:
  CuptiWindow(const CuptiApi& api, const CuptiWindowOptions& options);
  absl::Status Start();
  absl::Status LimitDeviceBuffers();
  absl::Status Enable();
  absl::Status Flush();
  void NoteCall(CuptiResult result, bool is_push);

  const CuptiApi& api_;
  const CuptiWindowOptions options_;
  bool began_ = false;
  bool ended_ = false;
  bool limited_ = false;
  size_t device_buffers_before_ = 0;
  // The first error of a Push or a Pop.
  std::atomic<CuptiResult> push_error_ = kCuptiSuccess;
  std::atomic<CuptiResult> pop_error_ = kCuptiSuccess;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_WINDOW_H_
