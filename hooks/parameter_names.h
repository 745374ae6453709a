// What the program's modules call their parameters, as Python tells it
// (python/ebbtide/_layers.py), so that a trace can say which layer a block is
// of.
//
// Thread-safe. A parameter is known by its storage (a c10::StorageImpl).
#ifndef EBBTIDE_HOOKS_PARAMETER_NAMES_H_
#define EBBTIDE_HOOKS_PARAMETER_NAMES_H_

namespace ebbtide {

// Numbers of names in the trace; -1: unknown.
struct ParameterName {
  int own = -1;    // "h.3.mlp.c_fc.weight"
  int layer = -1;  // "h.3.mlp.c_fc"
};

void NameParameter(const void* parameter, ParameterName name);

// Where nobody has told, AwaitNameless ends, once for each.
ParameterName NameOfParameter(const void* parameter);

// Blocks until a parameter without a name has been asked for since the last
// call.
void AwaitNameless();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PARAMETER_NAMES_H_
