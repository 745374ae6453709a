// Before 2.34 the C library left a program's constructors to the program, by a
// function that the compiler's start files brought. Those of today bring none.

typedef void (*Constructor)(int, char**, char**);
extern const Constructor __init_array_start[], __init_array_end[];

int OldStart(int (*main)(int, char**, char**), int argc, char** argv,
             Constructor init, void (*fini)(void), void (*loader_fini)(void),
             void* stack);
__asm__(".symver OldStart, __libc_start_main@GLIBC_2.2.5");

static void Construct(int argc, char** argv, char** environment) {
  for (const Constructor* each = __init_array_start; each != __init_array_end;
       ++each)
    (*each)(argc, argv, environment);
}

// The start files call it.
__attribute__((visibility("hidden"))) int __libc_start_main(
    int (*main)(int, char**, char**), int argc, char** argv, Constructor init,
    void (*fini)(void), void (*loader_fini)(void), void* stack) {
  return OldStart(main, argc, argv, init == 0 ? Construct : init, fini,
                  loader_fini, stack);
}
