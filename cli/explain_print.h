// `ebbtide explain` for people.
#ifndef EBBTIDE_CLI_EXPLAIN_PRINT_H_
#define EBBTIDE_CLI_EXPLAIN_PRINT_H_

#include <string>

#include "profiler/explanation.h"

namespace ebbtide {

// Lines that say what ExplanationToJson does, the ten first of each list.
std::string ExplanationToText(const Explanation& explanation);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_EXPLAIN_PRINT_H_
