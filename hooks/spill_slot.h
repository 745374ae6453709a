#ifndef EBBTIDE_HOOKS_SPILL_SLOT_H_
#define EBBTIDE_HOOKS_SPILL_SLOT_H_
namespace ebbtide {
struct SpillSlot {};
}  // namespace ebbtide
#endif
