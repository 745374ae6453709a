// Marks for the benches that count instructions: valgrind's callgrind counts
// those between BeginCounting and EndCounting; DumpCounts writes what was
// counted since the last dump to a file of its own, under a name. Outside
// valgrind they do nothing.
#include <valgrind/callgrind.h>

void BeginCounting(void) { CALLGRIND_START_INSTRUMENTATION; }

void EndCounting(void) { CALLGRIND_STOP_INSTRUMENTATION; }

void DumpCounts(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
