// A program with a Python interpreter inside: embedded PYTHON SCRIPT
// ARGUMENT...
#define PY_SSIZE_T_CLEAN
#include <Python.h>

int main(int argc, char** argv) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  // The environment that its packages are in.
  PyStatus status =
      PyConfig_SetBytesString(&config, &config.program_name, argv[1]);
  if (!PyStatus_Exception(status)) {
    status = PyConfig_SetBytesArgv(&config, argc - 1, argv + 1);
  }
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
  return Py_RunMain();
}
