// stdout and stderr for code that was compiled for programs and is part of a shared library, such
// as Debian's static cairo, fontconfig and libpng: it needs both variables in the library that it
// is linked into.
// Linked with -Wl,--wrap=stdout,--wrap=stderr, which gives every reference in the library to these.

#include <cstdio>

extern "C" {

extern FILE* __real_stdout;
extern FILE* __real_stderr;

__attribute__((visibility("hidden"))) FILE* __wrap_stdout = nullptr;
__attribute__((visibility("hidden"))) FILE* __wrap_stderr = nullptr;

// Before other constructors (101 is the first priority that a library may use).
__attribute__((constructor(101))) static void SetStreams() {
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
}

}  // extern "C"
