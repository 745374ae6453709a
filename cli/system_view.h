// The machine as `ebbtide doctor` finds it.
#ifndef EBBTIDE_CLI_SYSTEM_VIEW_H_
#define EBBTIDE_CLI_SYSTEM_VIEW_H_

#include <string>

#include "cli/doctor.h"

namespace ebbtide {

// Starts the python beside this program, or else the one on PATH, once, which
// imports torch, and copies 64 MiB to the spill folder and back; takes seconds.
SystemView LookAtSystem();

// What the answer of that python says: one JSON object on the last line. For
// tests; what does not parse is a problem of the view.
PythonView ParsePython(const std::string& path, const std::string& answer);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_SYSTEM_VIEW_H_
