/* Control of the simulated CUPTI by a test.
 *
 * The stand-in libcupti.so.13 records what the simulated runtime (control.h)
 * does, in the layout of CUPTI 13.0 or 13.2, and hands it out by CUPTI's own
 * protocol: on a thread of its own it asks for buffers, fills them and gives
 * them back. Times are those of the virtual clock. A piece of work has times
 * once that clock has passed its end; a forced flush delivers it without.
 *
 * Settings, each 0 unless said otherwise, by cuptisim_set(NAME, VALUE), or at
 * the start from the environment as CUPTISIM_NAME in capitals:
 *
 *   version            what cuptiGetVersion says: 130001 (the default), 130202
 *                      or any other, whose records are those of 13.2
 *   seed               of whatever is random below (1)
 *   subscribed         somebody else holds the subscriber
 *   deliver_every      delivers whenever so many records are there; 0: at a
 *                      flush alone
 *   records_in_buffer  at most so many, 0: as many as fit
 *   shuffle_records    the records of a delivery come in random order
 *   shuffle_buffers    its buffers do so, all filled before one is given
 *   late_us            a flush returns at once; this much later all buffers
 *                      are filled, and then given
 *   drop_records       so many of 1000 records are dropped, and counted
 *   hold_buffers       so many of 1000 buffers are filled and not given back
 *                      before the delivery that follows cuptisim_release
 *   cut_buffers        so many of 1000 buffers end within their last record
 *
 * CUPTISIM_FAIL is FUNCTION:AFTER:TIMES:RESULT,... as cuptisim_fail.
 *
 * At the end of a process that has CUPTISIM_TELL in its environment, standard
 * error has what is enabled still and pending, as "cuptisim: enabled 0, ...".
 *
 * It is attached to the simulated runtime when it is loaded; a test that has no
 * runtime drives cupti_sim.h itself. Functions may be called from any thread.
 */
#ifndef EBBTIDE_TESTS_CUDASIM_CUPTI_CONTROL_H_
#define EBBTIDE_TESTS_CUDASIM_CUPTI_CONTROL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0, or 1 where there is no such setting. */
int cuptisim_set(const char* name, int64_t value);
/* After `after` more calls, `times` calls of `function` (-1: all) return
 * `result`, a CUptiResult, and do nothing. */
void cuptisim_fail(const char* function, int64_t after, int64_t times,
                   int result);
uint64_t cuptisim_calls(const char* function);

struct CuptisimStats {
  uint64_t dropped;        /* records, for want of a buffer or by a setting */
  uint64_t declined;       /* requests for a buffer */
  uint64_t held;           /* buffers, so far */
  uint64_t cut;            /* buffers, so far */
  uint64_t timeless;       /* records delivered without times */
  uint64_t failed;         /* calls that were made to fail */
  uint64_t buffers;        /* asked for and got */
  uint64_t enabled;        /* kinds and calls that are enabled now */
  uint64_t pending;        /* records not delivered yet */
  uint64_t device_buffers; /* the limit that is set; 250 */
  uint64_t work_ns; /* that work took whose kind was enabled, in all, up to when
                       kernels were disabled last */
};
/* Waits for deliveries. */
void cuptisim_stats(struct CuptisimStats* out);
/* Buffers that were held come back at the next delivery. */
void cuptisim_release(void);
/* As at the start, but for the buffers that are held; waits for deliveries. */
void cuptisim_reset(void);

#ifdef __cplusplus
}
#endif

#endif /* EBBTIDE_TESTS_CUDASIM_CUPTI_CONTROL_H_ */
