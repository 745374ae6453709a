// Puts the simulated CUPTI behind the simulated runtime, when it is loaded.
#include <cstdio>
#include <cstdlib>

#include "tests/cudasim/control.h"
#include "tests/cudasim/cupti_sim.h"

namespace cudasim {
namespace {

uint64_t Now() {
  CudasimStats stats;
  cudasim_stats(&stats);
  return stats.now_ns;
}

uint32_t KindOf(const CudasimDeviceWork& work) {
  switch (work.sort) {
    case CUDASIM_KERNEL:
      return kKernelKind;
    case CUDASIM_SET:
      return kSetKind;
    default:
      return work.direction == CUDASIM_BETWEEN_DEVICES ? kPeerCopyKind
                                                       : kCopyKind;
  }
}

// CUPTI's number.
uint8_t DirectionOf(const CudasimDeviceWork& work) {
  constexpr uint8_t kNumbers[] = {1, 2, 8, 10};
  return kNumbers[work.direction];
}

void NoteCall(const char* function, uint64_t now) {
  CuptiSim::Get().NoteCall(function, now);
}

void NoteWork(const CudasimDeviceWork* work) {
  CuptiSim::Get().NoteWork({.kind = KindOf(*work),
                            .begin = work->begin_ns,
                            .end = work->end_ns,
                            .device = work->device,
                            .stream = work->stream,
                            .bytes = work->bytes,
                            .direction = DirectionOf(*work),
                            .name = work->name});
}

__attribute__((constructor)) void Attach() {
  CuptiSim::Get().set_clock(&Now);
  const CudasimObserver observer = {&NoteCall, &NoteWork};
  cudasim_observe(&observer);
}

__attribute__((destructor)) void Tell() {
  if (getenv("CUPTISIM_TELL") == nullptr) return;
  const CuptisimStats stats = CuptiSim::Get().stats();
  fprintf(stderr, "cuptisim: enabled %llu, pending %llu\n",
          static_cast<unsigned long long>(stats.enabled),
          static_cast<unsigned long long>(stats.pending));
}

}  // namespace
}  // namespace cudasim
