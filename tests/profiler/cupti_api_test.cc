#include "profiler/cupti_api.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cudasim/cupti_control.h"
#include "tests/profiler/cupti_table.h"

namespace ebbtide {
namespace {

// CUPTI 13.2 recurses without end in every call where libcuda.so.1 is not to be
// found; so CUPTI is not even looked for.
TEST(CuptiApiTest, WithoutADriverThereIsNone) {
  const auto api = CuptiApi::Loaded();
  EXPECT_EQ(api.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(api.status().message(),
            "CUPTI: no CUDA driver is loaded (libcuda.so.1)");
}

TEST(CuptiApiTest, ErrorsSayTheCallAndCuptisNameAndNumber) {
  const CuptiApi& api = SimulatedCupti();
  EXPECT_TRUE(CuptiStatus(api, 0, "cuptiX").ok());
  EXPECT_EQ(CuptiStatus(api, 35, "cuptiX"),
            absl::UnavailableError(
                "cuptiX: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"));
  EXPECT_EQ(CuptiStatus(api, 39, "cuptiX").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CuptiStatus(api, 777, "cuptiX").message(),
            "cuptiX: an error without a name (777)");
}

}  // namespace
}  // namespace ebbtide
