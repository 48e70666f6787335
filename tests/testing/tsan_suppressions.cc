// What ThreadSanitizer must not report: libraries that are not built with it, whose synchronisation
// it does not see. A race between stacks of ours alone is still reported. Linked into every program
// under --config=tsan (.bazelrc).

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the runtime's name
  return
      // LibTorch counts references and hands work to threads of its own: nothing that it sees
      // orders the accesses that follow.
      "race:libtorch_cpu.so\n"
      "race:libc10.so\n"
      // OpenMP's workers: where a parallel region begins and ends libgomp orders them by futexes of
      // its own.
      "race:gomp_thread_start\n"
      // Debian's abseil makes its table of error names once, which it orders by its own call_once.
      "race:StrErrorInternal\n"
      // Arrow frees on threads of its own what ours handed to it, ordered by counts of references
      // that tsan does not see.
      "race:libarrow.so\n";
}
#endif
