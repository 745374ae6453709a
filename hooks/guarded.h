// Blocks that recipes read and that the program may free all the same.
//
// A storage that a recipe reads is held, but its content is the program's:
// `untyped_storage().resize_(0)` frees the block and `resize_(n)` allocates
// another (fully sharded training releases its parameters this way), without
// any observable op. The allocator sees the block come back. Before it is
// freed, the storages whose recipes read it are recomputed.
//
// Thread-safe, with a lock of its own that is never held across anything.
#ifndef EBBTIDE_HOOKS_GUARDED_H_
#define EBBTIDE_HOOKS_GUARDED_H_

namespace ebbtide {

// `rescue` is called with a guarded block that is about to be freed. Once.
void InstallGuard(void (*rescue)(void* block));

// As often as Guard was called for a block, Unguard ends it.
void Guard(const void* block);
void Unguard(const void* block);

// To be called with every block that may be guarded, before it is freed.
void BeforeFree(void* block);

void LockGuardForFork();
void UnlockGuardAfterFork();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_GUARDED_H_
