// The start of a program on glibc before 2.34, whose __libc_start_main runs a program's
// constructors only by the function that it is given. (From 2.34 on the program gives none, and
// glibc finds them itself; given one, it calls that alone.) Linked with
// -Wl,--wrap=__libc_start_main.

extern "C" {

using Main = int (*)(int, char**, char**);
using Function = void (*)();

extern void (*__init_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
void _init();

int __real___libc_start_main(Main main, int argc, char** argv, Main init, Function fini,
                             Function rtld_fini, void* stack_end);

static int Initialize(int argc, char** argv, char** environment) {
  _init();
  for (auto each = __init_array_start; each != __init_array_end; ++each) {
    (*each)(argc, argv, environment);
  }
  return 0;
}

// The dynamic loader runs a program's destructors (fini) in every version.
__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main main, int argc, char** argv,
                                                                   Main, Function,
                                                                   Function rtld_fini,
                                                                   void* stack_end) {
  return __real___libc_start_main(main, argc, argv, Initialize, nullptr, rtld_fini, stack_end);
}

}  // extern "C"
