// What ThreadSanitizer must not report: LibTorch is not built with it, so where LibTorch counts references or hands work to
// its own threads, nothing orders the accesses that follow. A race between stacks of ours alone is still reported.

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the runtime's name
  return "race:libtorch_cpu.so\n"
         "race:libc10.so\n";
}
#endif
