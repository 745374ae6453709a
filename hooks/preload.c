// The library for LD_PRELOAD. It has no torch symbol and does one of three
// things, once, in its constructor:
//   - nothing, unless EBBTIDE_BUDGET or EBBTIDE_RECORD is set;
//   - in a program that links libtorch_cpu: opens the core beside it and starts
//     it, libebbtide_cuda.so if the program links libc10_cuda as well, or else
//     libebbtide.so;
//   - in any other program (python, or a shell that will start one): puts the
//     folder with the torch.backends entry point first on PYTHONPATH, which
//     Python reads after every constructor has run.
// A failure is one line on standard error and leaves the program alone. So is,
// when the program ends, that it had torch and nobody was asked to start.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int IsSet(const char* name) {
  const char* value = getenv(name);
  return value != NULL && value[0] != '\0';
}

static int Is(const char* name, const char* value) {
  const char* is = getenv(name);
  return is != NULL && strcmp(is, value) == 0;
}

static int Wanted(void) {
  if (IsSet("EBBTIDE_DISABLE") && !Is("EBBTIDE_DISABLE", "0")) return 0;
  return IsSet("EBBTIDE_BUDGET") || IsSet("EBBTIDE_RECORD");
}

// True if the file name of the library begins with `data`.
static int IsNamed(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  const char* wanted = data;
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* name = slash == NULL ? info->dlpi_name : slash + 1;
  return strncmp(name, wanted, strlen(wanted)) == 0;
}

static int IsLinked(char* library) {
  return dl_iterate_phdr(IsNamed, library) != 0;
}

// Writes the folder of this library, without a slash at its end.
static int OwnFolder(char* folder, size_t size) {
  static const char kHere = 0;
  Dl_info info;
  if (dladdr(&kHere, &info) == 0) return 0;
  char path[PATH_MAX];
  if (realpath(info.dli_fname, path) == NULL) return 0;
  char* slash = strrchr(path, '/');
  if (slash == NULL) return 0;
  *slash = '\0';
  return snprintf(folder, size, "%s", path) < (int)size;
}

// The core NEEDs what it was chosen by, so opening it makes the loader run
// libtorch's initialisers first even though this constructor runs before them.
static void StartCore(const char* folder) {
  char path[PATH_MAX];
  const char* form =
      IsLinked("libc10_cuda.so") ? "libebbtide_cuda.so" : "libebbtide.so";
  if (snprintf(path, sizeof path, "%s/%s", folder, form) >= (int)sizeof path) {
    fprintf(stderr, "ebbtide: off: the path %s is too long\n", folder);
    return;
  }
  void* core = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (core == NULL) {
    fprintf(stderr, "ebbtide: off: %s\n", dlerror());
    return;
  }
  int (*start)(const char*);
  *(void**)&start = dlsym(core, "ebbtide_start");
  if (start == NULL) {
    fprintf(stderr, "ebbtide: off: %s\n", dlerror());
    return;
  }
  // Nonzero: the core has said why in its own line.
  (void)start("preload");
}

static void PrependToPythonPath(const char* folder) {
  char boot[PATH_MAX];
  char joined[PATH_MAX];
  if (snprintf(joined, sizeof joined, "%s/../boot", folder) >=
          (int)sizeof joined ||
      realpath(joined, boot) == NULL) {
    fprintf(stderr, "ebbtide: off: no folder %s/../boot\n", folder);
    return;
  }
  const char* old = getenv("PYTHONPATH");
  if (old == NULL || old[0] == '\0') {
    setenv("PYTHONPATH", boot, 1);
    return;
  }
  const size_t length = strlen(boot);
  const int first = strncmp(old, boot, length) == 0 &&
                    (old[length] == ':' || old[length] == '\0');
  if (first) return;  // a parent process has done it
  const size_t size = length + 1 + strlen(old) + 1;
  char* path = malloc(size);
  if (path == NULL) return;
  snprintf(path, size, "%s:%s", boot, old);
  setenv("PYTHONPATH", path, 1);
  free(path);
}

// The process that the library was loaded into; 0: something was said already.
static pid_t process = 0;

__attribute__((constructor)) static void Preload(void) {
  if (!Wanted()) return;
  char folder[PATH_MAX];
  if (!OwnFolder(folder, sizeof folder)) {
    fprintf(stderr, "ebbtide: off: cannot find the preload library's folder\n");
    return;
  }
  if (IsLinked("libtorch_cpu.so")) {
    StartCore(folder);
  } else {
    process = getpid();
    PrependToPythonPath(folder);
  }
}

// True if ebbtide is loaded in this process, or has already reported why it is
// not.
static int WasAsked(void) {
  char own[16];
  snprintf(own, sizeof own, "%d", (int)getpid());
  return Is("EBBTIDE_LOADED_PID", own) || IsLinked("libebbtide.so") ||
         IsLinked("libebbtide_cuda.so");
}

// True if this Python reports that it ignores PYTHONPATH (until 3.13).
static int IgnoresPythonPath(void) {
  const int* ignores = dlsym(RTLD_DEFAULT, "Py_IgnoreEnvironmentFlag");
  return ignores == NULL || *ignores != 0;
}

__attribute__((destructor)) static void Unload(void) {
  if (process != getpid() || !Wanted() || !IsLinked("libtorch_cpu.so") ||
      WasAsked() || (IsSet("RANK") && !Is("RANK", "0"))) {
    return;
  }
  const char* why =
      Is("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
          ? "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps `import torch` from "
            "loading it"
      : IgnoresPythonPath()
          ? "`import torch` did not find it: python -I and -E ignore "
            "PYTHONPATH, so ebbtide has to be installed in that Python"
          : "`import torch` did not come to its end, where it loads "
            "ebbtide";
  fprintf(stderr, "ebbtide: off: %s\n", why);
}
