/* Timed mode: what torch runs on the simulated device takes a real device's
 * time.
 *
 * Every operator's kernel for the device is wrapped. The outermost one says how
 * long the op takes (cudasim_op_begin), and the kernels that it launches share
 * that. Nothing is computed. Needs CUDASIM_DEVICE_FILE; not together with exact
 * mode (exact.h).
 */
#ifndef EBBTIDE_TESTS_CUDASIM_TIMED_H_
#define EBBTIDE_TESTS_CUDASIM_TIMED_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Once per process, after torch is loaded and while no other thread runs ops.
 * `table`: the file of op_times.h, or NULL for the roofline alone. Returns
 * NULL, or what is wrong, and nothing is wrapped. */
const char* cudasim_timed_install(const char* table);
/* From now on each op that launches a kernel is written to the file, a line of
 * tab-separated fields: the backward op that runs it, the op as the table has
 * it, its roofline in nanoseconds, its kernels. Returns 0, or an errno. */
int cudasim_timed_log(const char* path);

#ifdef __cplusplus
}
#endif

#endif /* EBBTIDE_TESTS_CUDASIM_TIMED_H_ */
