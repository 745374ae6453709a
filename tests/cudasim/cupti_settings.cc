#include "tests/cudasim/cupti_settings.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace cudasim {
namespace {

struct Setting {
  const char* name;
  int64_t CuptiSettings::*value;
};
constexpr Setting kSettings[] = {
    {"version", &CuptiSettings::version},
    {"seed", &CuptiSettings::seed},
    {"subscribed", &CuptiSettings::subscribed},
    {"deliver_every", &CuptiSettings::deliver_every},
    {"records_in_buffer", &CuptiSettings::records_in_buffer},
    {"shuffle_records", &CuptiSettings::shuffle_records},
    {"shuffle_buffers", &CuptiSettings::shuffle_buffers},
    {"late_us", &CuptiSettings::late_us},
    {"drop_records", &CuptiSettings::drop_records},
    {"hold_buffers", &CuptiSettings::hold_buffers},
    {"cut_buffers", &CuptiSettings::cut_buffers},
};

}  // namespace

CuptiSettings CuptiSettings::FromEnvironment() {
  CuptiSettings settings;
  for (const Setting& setting : kSettings) {
    std::string name = std::string("CUPTISIM_") + setting.name;
    for (char& c : name) c = static_cast<char>(toupper(c));
    if (const char* value = getenv(name.c_str())) {
      settings.*setting.value = strtoll(value, nullptr, 0);
    }
  }
  return settings;
}

bool CuptiSettings::Set(const std::string& name, int64_t value) {
  for (const Setting& setting : kSettings) {
    if (name != setting.name) continue;
    this->*setting.value = value;
    return true;
  }
  return false;
}

Calls CuptiFaultsFromEnvironment() {
  Calls calls;
  const char* const faults = getenv("CUPTISIM_FAIL");
  if (faults != nullptr && !calls.FailAll(faults)) {
    fprintf(stderr, "cuptisim: CUPTISIM_FAIL=%s makes no sense\n", faults);
    abort();
  }
  return calls;
}

}  // namespace cudasim
