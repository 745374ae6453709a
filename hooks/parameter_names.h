// Names of parameters in the program's modules, as python/ebbtide/_layers.py
// reports them, so that a trace can name the layer of a block.
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

// A call for a parameter without a name ends AwaitNameless, once for each
// parameter.
ParameterName NameOfParameter(const void* parameter);

// Blocks until a parameter without a name has been asked for since the last
// call.
void AwaitNameless();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PARAMETER_NAMES_H_
