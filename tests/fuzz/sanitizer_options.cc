// Defaults of the sanitizers, so that a target started by hand is judged as the runner judges it:
// as config asan has them (.bazelrc).
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_container_overflow=0";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
