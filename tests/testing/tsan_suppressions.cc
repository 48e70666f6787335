// Suppressions for ThreadSanitizer: libraries that are not built with it, whose synchronization it
// cannot see. A race between two stacks of our own code is still reported. Linked into every
// program under --config=tsan (.bazelrc).

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the runtime's name
  return
      // LibTorch counts references and passes work to its own threads; ThreadSanitizer sees nothing
      // that orders the accesses that follow.
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
