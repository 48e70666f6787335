// Suppressions for ThreadSanitizer, for libraries that are not built with it, so that it cannot see
// how they synchronize. A race between two stacks of Moonring's own code is still reported. Linked
// into every program under --config=tsan (.bazelrc).

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the runtime's name
  return
      // LibTorch counts references and passes work to its own threads; ThreadSanitizer cannot see
      // what orders the accesses after that.
      "race:libtorch_cpu.so\n"
      "race:libc10.so\n"
      // OpenMP's worker threads: libgomp orders the beginning and end of a parallel region by its
      // own futexes.
      "race:gomp_thread_start\n"
      // Debian's abseil builds its table of error names once, ordered by its own call_once.
      "race:StrErrorInternal\n"
      // Arrow frees, on its own threads, memory that our threads passed to it; the order is given
      // by reference counts, which ThreadSanitizer cannot see.
      "race:libarrow.so\n";
}
#endif
