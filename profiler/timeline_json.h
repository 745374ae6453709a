// The data of the page of `ebbtide timeline`.
#ifndef EBBTIDE_PROFILER_TIMELINE_JSON_H_
#define EBBTIDE_PROFILER_TIMELINE_JSON_H_

#include <string>
#include <vector>

#include "profiler/timeline.h"
#include "profiler/timeline_plan.h"

namespace ebbtide {

// One JSON object; times in nanoseconds since `begin`. Valid UTF-8 whatever the
// names hold, and safe inside a <script> element. `explanation` is what
// ExplanationToJson returns, and a member of it as it is.
//
// The long lists (curve, blocks, lanes, tiers) are packed: base64 of numbers as
// zigzag varints, row after row, of which those that grow are differences from
// the row before. Their rows are written down in timeline_json.cc; what unpacks
// them is cli/timeline_data.js.
std::string TimelineToJson(const Timeline& timeline,
                           const PlanComparison& comparison = {},
                           const std::string& explanation = "null");

struct NamedTimeline {
  std::string file;
  Timeline timeline;
};

// {"runs":[..]}, each as above with its "file", for cli/timeline_compare.js.
std::string TimelinesToJson(const std::vector<NamedTimeline>& runs);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_JSON_H_
