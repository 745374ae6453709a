#include "profiler/cupti_records.h"

namespace ebbtide {
namespace {

template <typename T>
void AppendTo(std::vector<T>* to, const std::vector<T>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

}  // namespace

int64_t CuptiRecords::size() const {
  return static_cast<int64_t>(kernels.size() + copies.size() + sets.size() +
                              externals.size() + calls.size());
}

void CuptiRecords::Append(const CuptiRecords& more) {
  AppendTo(&kernels, more.kernels);
  AppendTo(&copies, more.copies);
  AppendTo(&sets, more.sets);
  AppendTo(&externals, more.externals);
  AppendTo(&calls, more.calls);
}

}  // namespace ebbtide
