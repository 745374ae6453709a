// The facts about an operator that the recorder needs, looked up once per
// overload.
#ifndef EBBTIDE_HOOKS_OP_INFO_H_
#define EBBTIDE_HOOKS_OP_INFO_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>

namespace ebbtide {

struct OpInfo {
  c10::OperatorHandle handle;
  std::string name;  // "addmm", "add_.Tensor"

  // Its children are recorded instead: composite ops look at requires_grad,
  // which is not set during a recomputation.
  bool composite = false;
  // Under autocast its casts and the inner call are recorded instead.
  bool autocast = false;
  // Returns nothing but views of its arguments, or no tensor at all: no forward
  // begins with it (`loss.detach()`, `loss.item()`, a state_dict).
  bool computes = true;
  // Draws from a generator, as far as its tags know.
  bool random = false;
  // Each element of the result is made of the elements at its place: no sums,
  // no products of matrices.
  bool pointwise = false;
  // Writes at least one argument.
  bool mutates = false;
  // Recomputing it may give other bytes in any case: no recipe contains it.
  bool opaque = false;
  // The sizes of its outputs depend on bytes, not on geometries alone.
  bool dynamic = false;
  const char* why_opaque = "";  // for people
  // Outputs hold no value yet (empty*): captured by alias if small.
  bool uninitialized = false;
  // Overwrites its first argument without reading it (fill_, bernoulli_, ...).
  bool overwrites = false;
  // Batch normalization that updates running statistics without declaring it in
  // its schema (arguments 3 and 4, when argument 5, training, is true): it is
  // recomputed without them, which changes no output bit.
  bool batch_norm = false;
  // Bit i: argument i is a number that neither sizes nor kernels follow from
  // (a factor, a probability, an epsilon), so that its value is an input like a
  // tensor's bytes, and no part of a signature.
  uint64_t numbers = 0;

  bool IsNumber(int argument) const {
    return argument < 64 && (numbers >> argument & 1) != 0;
  }
};

// The operator of an op event, or nullptr where there is none (user scopes).
// Entries live for ever. Not thread-safe: called under the runtime's lock.
const OpInfo* FindOpInfo(const at::RecordFunction& fn);

// Makes new infos from now on, because another kind of device is in use, for
// which the rules differ.
void ForgetOpInfo();

// True if `op` writes its argument `index`.
bool Writes(const OpInfo& op, int index);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_OP_INFO_H_
