// The delegating autograd engine: PyTorch's own with one addition, the default
// saved-tensor hooks. Execution is untouched.
#ifndef EBBTIDE_HOOKS_ENGINE_H_
#define EBBTIDE_HOOKS_ENGINE_H_

namespace ebbtide {

// Replaces the process's default engine stub; after torch._C is initialised.
void InstallEngine();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_ENGINE_H_
