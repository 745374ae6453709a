// Functions that the C library has only since 2.29, by means of what it had
// before, for the libraries and the program of the wheel
// (python/old_libraries.py).

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#pragma GCC visibility push(hidden)

// C++ headers count references without atomics where it is true.
char __libc_single_threaded = 0;

int __fxstat(int version, int file, struct stat* found)
    __attribute__((visibility("default")));
int __lxstat(int version, const char* path, struct stat* found)
    __attribute__((visibility("default")));
int __xstat(int version, const char* path, struct stat* found)
    __attribute__((visibility("default")));

int fstat(int file, struct stat* found) { return __fxstat(1, file, found); }
int lstat(const char* path, struct stat* found) {
  return __lxstat(1, path, found);
}
int stat(const char* path, struct stat* found) {
  return __xstat(1, path, found);
}

// The same moment by the clock of pthread_cond_timedwait. Where that clock is
// set meanwhile, a wait ends early or late, as it did with every C++ library
// before.
static struct timespec RealTime(clockid_t clock, const struct timespec* until) {
  struct timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  const long kSecond = 1000000000;
  if (real.tv_nsec >= kSecond) {
    real.tv_nsec -= kSecond;
    ++real.tv_sec;
  } else if (real.tv_nsec < 0) {
    real.tv_nsec += kSecond;
    --real.tv_sec;
  }
  return real;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           clockid_t clock, const struct timespec* until) {
  const struct timespec real = RealTime(clock, until);
  return pthread_cond_timedwait(condition, mutex, &real);
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                            const struct timespec* until) {
  const struct timespec real = RealTime(clock, until);
  return pthread_mutex_timedlock(mutex, &real);
}
