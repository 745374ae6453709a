#include "hooks/job_curve.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "planner/plan.h"

namespace ebbtide {
namespace {

nlohmann::ordered_json PointsToJson(const std::vector<CurvePoint>& points,
                                    Time tail) {
  auto list = nlohmann::ordered_json::array();
  for (const CurvePoint& point : points) {
    list.push_back({{"budget", Count(point.budget)},
                    {"seconds", (point.time + tail) / 1e9}});
  }
  return list;
}

}  // namespace

std::string CurveToJson(const Profile* profile, absl::Duration limit) {
  if (profile == nullptr) {
    return R"({"why":"no step has been recorded to its end yet"})";
  }
  nlohmann::ordered_json json = {{"points", nullptr}, {"spilling", nullptr}};
  for (const bool spills : {false, true}) {
    if (spills && (profile->d2h <= 0 || profile->h2d <= 0)) continue;
    PlanOptions options;
    options.time_limit = limit;
    options.allow_offload = spills;
    const auto points = MakeCurve(*profile, options);
    if (!points.ok()) {
      return nlohmann::json({{"why", std::string(points.status().message())}})
          .dump();
    }
    json[spills ? "spilling" : "points"] =
        PointsToJson(*points, profile->tail_time);
  }
  return json.dump();
}

}  // namespace ebbtide
