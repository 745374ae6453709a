// Precompiled for hooks/ only: the torch headers take most of the build time.
#ifndef EBBTIDE_HOOKS_TORCH_PCH_H_
#define EBBTIDE_HOOKS_TORCH_PCH_H_

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <string>
#include <vector>

#endif  // EBBTIDE_HOOKS_TORCH_PCH_H_
