/* Exact mode: what torch computes on the simulated device is computed, by the
 * same op on the CPU.
 *
 * Every operator's kernel for the device is wrapped. That is below autograd,
 * autocast, dispatch modes and whatever else stands before a kernel: hooks that
 * autograd calls see computed results, and replays are computed too. The
 * outermost kernel runs as ever: it allocates, launches kernels that do
 * nothing, copies. Behind it, on its stream, the wrapper queues a function that
 * does the op's arithmetic when its turn comes: it takes the bytes of the
 * inputs as they are then, where they are, runs the op's CPU kernel on one
 * thread and writes the bytes of the outputs. So a stream that reads too early
 * reads wrong bytes, as on a device.
 *
 * Random ops draw from a CPU generator whose seed is a hash of the device
 * generator's seed and offset before the op: the same state gives the same
 * numbers, as on a device, though not a device's.
 *
 * An op that cannot be computed this way (no CPU kernel, a shape or a host
 * value that depends on data) breaks the device, with its name
 * (cudasim_broken). Attention needs the MATH backend, convolutions and
 * recurrent layers torch.backends.cudnn.enabled = False. Work that torch does
 * not dispatch (Triton, extensions that launch kernels) is not seen.
 */
#ifndef EBBTIDE_TESTS_CUDASIM_EXACT_H_
#define EBBTIDE_TESTS_CUDASIM_EXACT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Once per process, after torch is loaded and while no other thread runs ops.
 * Starts no thread, so that the process may fork before it uses the device. */
void cudasim_exact_install(void);
/* Off and on again; it is on after the installation. */
void cudasim_exact_enable(int enabled);
/* How many ops were queued to be computed so far. */
uint64_t cudasim_exact_ops(void);
/* From now on the caching allocator reports its blocks to the simulator
 * (cudasim_block_taken_on). Once, after torch has initialised the device. */
void cudasim_exact_watch_blocks(void);

#ifdef __cplusplus
}
#endif

#endif /* EBBTIDE_TESTS_CUDASIM_EXACT_H_ */
