// Default options of the sanitizers, so that a target that is started by hand has the options of
// --config=asan (.bazelrc).
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_container_overflow=0";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
