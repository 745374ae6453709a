// The machine as `ebbtide doctor` finds it.
#ifndef EBBTIDE_CLI_SYSTEM_VIEW_H_
#define EBBTIDE_CLI_SYSTEM_VIEW_H_

#include <string>

#include "cli/doctor.h"

namespace ebbtide {

// Starts the python beside this program, or else the one on PATH, once, which
// imports torch, and copies 64 MiB to the offload folder and back; takes
// seconds.
SystemView LookAtSystem();

// Parses the answer of that python: one JSON object on the last line. For
// tests; a parse error is a problem of the view.
PythonView ParsePython(const std::string& path, const std::string& answer);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_SYSTEM_VIEW_H_
