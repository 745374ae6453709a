// Marks for `./dev bench fits`: valgrind's callgrind counts the instructions
// between the two calls. Outside valgrind they do nothing.
#include <valgrind/callgrind.h>

void BeginCounting(void) { CALLGRIND_START_INSTRUMENTATION; }

void EndCounting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
