// Hands records to whoever registered callbacks, with whatever disorder is set.
#ifndef EBBTIDE_TESTS_CUDASIM_CUPTI_DELIVERY_H_
#define EBBTIDE_TESTS_CUDASIM_CUPTI_DELIVERY_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/cudasim/cupti_record.h"
#include "tests/cudasim/cupti_settings.h"

namespace cudasim {

struct CuptiCallbacks {
  void (*request)(uint8_t** buffer, size_t* size, size_t* records) = nullptr;
  void (*complete)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                   size_t valid) = nullptr;
};

struct CuptiBuffer {
  uint8_t* begin = nullptr;
  size_t size = 0;
  size_t valid = 0;
};

// Results of a delivery.
struct CuptiDelivered {
  uint64_t dropped = 0;
  uint64_t declined = 0;
  uint64_t cut = 0;
  uint64_t buffers = 0;
  std::vector<CuptiBuffer> held;
};

// Asks for a buffer; its begin is null where that is declined.
struct CuptiRequested {
  CuptiBuffer buffer;
  size_t records = 0;  // at most so many; 0: as many as fit
};
CuptiRequested RequestCuptiBuffer(const CuptiCallbacks& callbacks);

// Calls the callbacks; the caller holds no locks. `first` is a buffer that is
// there already, or none. Adds to `dropped` before it gives a buffer back that
// was to hold what is dropped, or one behind it.
CuptiDelivered DeliverCupti(std::vector<CuptiRecord> records,
                            const CuptiRequested& first,
                            const CuptiSettings& settings,
                            const CuptiCallbacks& callbacks,
                            std::atomic<size_t>* dropped,
                            std::mt19937_64* random);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CUPTI_DELIVERY_H_
