/* Control of the simulated CUDA runtime by a test.
 *
 * The stand-ins libcudart.so.13, libcublas.so.13, libcublasLt.so.13 and
 * libcuda.so.1 let a program built for CUDA 13 run on a machine without a
 * device. Memory, streams, events, copies, host functions and graphs are real;
 * a kernel takes its place in the queue and its time on the virtual clock, but
 * computes nothing (libcudasim_exact.so computes for torch).
 *
 * Environment, read at the first call:
 *   CUDASIM_DEVICES     number of devices, 1 to 8 (1)
 *   CUDASIM_MEM         bytes of each, with K, M or G behind (4G)
 *   CUDASIM_ADDRESSES   bytes of address space (4096G; sanitizers leave less)
 *   CUDASIM_SCHEDULE    eager, ontime, late, race or random (late)
 *   CUDASIM_SEED        of the random schedule (1)
 *   CUDASIM_POISON      byte that fresh memory is filled with (none)
 *   CUDASIM_CC          compute capability, two digits (80)
 *   CUDASIM_SMS         multiprocessors (108)
 *   CUDASIM_H2D_GBPS, CUDASIM_D2H_GBPS, CUDASIM_KERNEL_US, CUDASIM_HOST_US,
 *   CUDASIM_TFLOPS      rates of the virtual clock (25, 25, 5, 1, 100)
 *   CUDASIM_FAIL        FUNCTION:AFTER:TIMES:ERROR,... as cudasim_fail
 *   CUDASIM_DEVICE_FILE what bench/gpu/device_probe.py measured: the
 *                       times of calls, copies and kernels are that device's
 *   CUDASIM_OP_HOST_US, CUDASIM_BACKWARD_OP_HOST_US
 *                       that Python and PyTorch take on the host for an op of
 *                       the main thread, and of autograd's (0)
 *   CUDASIM_OWN_BASE_US, CUDASIM_BACKWARD_OWN_BASE_US
 *                       processor time that they take for it here; what the
 *                       program takes beyond it passes, too (not counted)
 *   CUDASIM_BYTES       0: no bytes move, and memory takes none (1)
 *   CUDASIM_FLAG        then, a single byte that the host reads (0)
 *
 * Functions that return int return 0 or an error number of CUDA. All may be
 * called from any thread; queued functions may look at bytes (peek, poke,
 * bytes) but must not wait for streams.
 */
#ifndef EBBTIDE_TESTS_CUDASIM_CONTROL_H_
#define EBBTIDE_TESTS_CUDASIM_CONTROL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When queued work runs. All five are orders that a device might choose. */
enum CudasimSchedule {
  CUDASIM_EAGER = 0,  /* at once, as a naive fake does: hides every race */
  CUDASIM_ONTIME = 1, /* when its end on the virtual clock has passed */
  CUDASIM_LATE = 2,   /* when somebody waits for it, and no earlier */
  CUDASIM_RACE = 3,   /* default stream late, every other as early as it may */
  CUDASIM_RANDOM = 4, /* by the toss of a seeded coin */
};

struct CudasimStats {
  uint64_t device_bytes, device_peak, device_allocations, live_allocations;
  uint64_t pinned_bytes, pinned_peak;
  uint64_t kernels, copies, copied_bytes, memsets;
  uint64_t pending, executed;
  uint64_t out_of_bounds;
  uint64_t hazards;
  uint64_t now_ns; /* the host's virtual clock */
  /* Processor time that the program took outside of its calls, on threads that
   * run ops, and how many ops they queued (cudasim_op_begin). */
  uint64_t cpu_ns, backward_cpu_ns;
  uint64_t ops, backward_ops;
  /* Ranges of reserved addresses, and events that were not destroyed. */
  uint64_t reservations, live_events;
};

void cudasim_stats(struct CudasimStats* out);
/* For every device; allocations beyond it stay. */
void cudasim_set_capacity(uint64_t bytes);
void cudasim_set_schedule(int schedule);
void cudasim_set_seed(uint64_t seed);
void cudasim_set_rates(double h2d_gbps, double d2h_gbps, double kernel_us,
                       double host_us);
/* Byte that fresh device and pinned memory is filled with; -1 for none. */
void cudasim_set_poison(int byte);
/* The host computes for so long. */
void cudasim_advance_ns(uint64_t ns);

/* After `after` more calls, `times` calls of `function` (-1: all) fail. */
void cudasim_fail(const char* function, int64_t after, int64_t times,
                  int error);
uint64_t cudasim_calls(const char* function);
/* After `after` more calls, of whatever functions but cudaGetDevice, one fails;
 * if `breaks`, the device does for good (cudasim_break). The next: their
 * number. */
void cudasim_fail_one(int64_t after, int error, int breaks);
uint64_t cudasim_all_calls(void);
/* The call that failed: the function and, from the caller outward, the code it
 * came from, each LIBRARY+OFFSET; NULL before. Standard error has it, too, as
 * "cudasim: failed: ...". */
const char* cudasim_failed(void);
/* From now on each such call is noted, with the one piece of code that it came
 * from: the n-th since then, or NULL. */
void cudasim_trace_calls(void);
const char* cudasim_traced(size_t n);

/* Device bytes as they are now, whatever is still queued. */
int cudasim_peek(const void* device, void* out, size_t size);
int cudasim_poke(void* device, const void* in, size_t size);
/* The host's address of device bytes; host addresses are their own. NULL where
 * [device, device + size) is not all allocated. */
void* cudasim_bytes(const void* device, size_t size);
int cudasim_is_capturing(void* stream);

/* Bytes that queued work reads or writes. */
struct CudasimAccess {
  const void* begin;
  size_t size;
  int write;
};
/* NOLINTNEXTLINE(modernize-use-using): C has nothing else */
typedef void (*CudasimFunction)(void* argument);
struct CudasimWork {
  const char* name;
  double ns;                /* on the virtual clock */
  CudasimFunction function; /* may be NULL; called without locks held */
  CudasimFunction destroy;  /* frees `argument`, maybe with a lock held */
  void* argument;
  const struct CudasimAccess* accesses;
  size_t access_count;
};
/* In stream order, like a kernel, and one where it takes time. The work runs
 * once, or once per launch of the graph if the stream is capturing. */
int cudasim_enqueue(void* stream, const struct CudasimWork* work);
/* The host waits for the stream, as with cudaStreamSynchronize, but it is no
 * call of the program's: nothing is counted, and no fault hits it. */
int cudasim_wait(void* stream);

/* Between begin and end, this thread runs an op that takes the device `ns`. The
 * kernels that it launches take that time together, in equal parts if it was
 * said how many there are (0: not known, and the first takes all). Pairs do not
 * nest. Returns the number of kernels. */
void cudasim_op_begin(double ns, unsigned kernels);
unsigned cudasim_op_end(void);
/* Between begin and end, this thread's processor time is the simulator's. Pairs
 * nest. */
void cudasim_pause_begin(void);
void cudasim_pause_end(void);
/* The host's virtual clock. Takes no lock. Never goes back. */
uint64_t cudasim_now_ns(void);
/* Times of CUDASIM_DEVICE_FILE, 0 where there is none: operations of a product
 * and bytes of memory per nanosecond. */
double cudasim_product_flops(void);
double cudasim_memory_bytes(void);

/* Between begin and end, what this thread copies or sets on the device takes
 * its time but moves no bytes: somebody else computes them. Pairs nest. */
void cudasim_shadow_begin(void);
void cudasim_shadow_end(void);
/* Between begin and end, this thread's calls are none of the program's: nothing
 * is counted, and no fault hits them. Pairs nest. */
void cudasim_aside_begin(void);
void cudasim_aside_end(void);

/* An allocator above the runtime reports its use of a piece of memory.
 * From then on an access that is queued while the piece is free, or that is not
 * ordered behind every access of its last holder, is a hazard: the message
 * names both accesses, and the device fails (cudasim_break). `taken_on` also
 * names the stream in whose order the piece may be taken again, so that a piece
 * freed while another stream still uses it is a hazard at once, where it does
 * not lie in mapped pages, and poison is applied to the piece in that stream's
 * order. A page that is unmapped while the host does not know of an access of
 * its pieces that it is over is a hazard, too. */
void cudasim_block_taken(const void* block, size_t size);
void cudasim_block_taken_on(const void* block, size_t size, void* stream);
void cudasim_block_freed(const void* block, size_t size);
/* Message of the n-th hazard, or NULL. */
const char* cudasim_hazard(size_t n);
/* 1: a hazard breaks the device (the default); 0: it is only noted. */
void cudasim_set_hazards_fatal(int fatal);

/* A profiler's view of work, as it is queued, with its time to come. */
enum CudasimSort { CUDASIM_KERNEL = 1, CUDASIM_COPY = 2, CUDASIM_SET = 3 };
enum CudasimDirection {
  CUDASIM_TO_DEVICE = 0,
  CUDASIM_TO_HOST = 1,
  CUDASIM_ON_DEVICE = 2,
  CUDASIM_BETWEEN_DEVICES = 3,
};
struct CudasimDeviceWork {
  int sort;
  int direction; /* for a copy */
  const char* name;
  uint64_t begin_ns, end_ns;
  uint64_t bytes; /* for a copy or a set */
  uint32_t device, stream;
};
/* Both are called with the simulator's lock held, and must not call it: the
 * first at every call, with NULL for one that is no call of the program's, the
 * second at the work that this thread's last call has queued. Set before any
 * other call, or while nobody makes one. */
struct CudasimObserver {
  void (*call)(const char* function, uint64_t now_ns);
  void (*work)(const struct CudasimDeviceWork* work);
};
void cudasim_observe(const struct CudasimObserver* observer);

/* From now on every call that does work fails with cudaErrorLaunchFailure, for
 * which cudaGetErrorString returns the first message. */
void cudasim_break(const char* message);
const char* cudasim_broken(void); /* that message, or NULL */
void cudasim_mend(void);          /* forgets it, and all blocks and hazards */

/* For the other stand-ins. A call of `function`, which is counted, takes the
 * host's time and may be made to fail: returns its error. */
int cudasim_enter(const char* function);
/* The simulated driver's function of that name, or NULL. */
void* cudasim_driver_symbol(const char* name);
/* Called by generated stubs: says once that `function` is not simulated. */
int cudasim_missing(const char* function);

#ifdef __cplusplus
}
#endif

#endif /* EBBTIDE_TESTS_CUDASIM_CONTROL_H_ */
