// The planner runs inside training processes, which nothing in it may end.
// Private to the planner.
#ifndef EBBTIDE_PLANNER_GUARDED_H_
#define EBBTIDE_PLANNER_GUARDED_H_

#include <exception>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/plan.h"
#include "planner/profile.h"

namespace ebbtide {

// Returns the result of `function`; an exception, by a bug or by a size that
// CheckProfile cannot reject, becomes a status.
template <class Result, class... Parameters>
Result Guarded(Result (*function)(const Profile&, const PlanOptions&,
                                  Parameters...),
               const Profile& profile, const PlanOptions& options,
               std::type_identity_t<Parameters>... more) {
  try {
    return function(profile, options, more...);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory left for the planner");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("planner: ", error.what()));
  }
}

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_GUARDED_H_
