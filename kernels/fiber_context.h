#ifndef MOONRING_KERNELS_FIBER_CONTEXT_H_
#define MOONRING_KERNELS_FIBER_CONTEXT_H_

// Fibers: separate stacks between which one thread switches. On x86-64 a switch takes twelve
// instructions, which save the registers that a function call preserves (5 ns); elsewhere, and
// under sanitizers, it uses ucontext.

#include <cstddef>
#include <memory>

namespace moonring::kernels::fibers {

class Context {
 public:
  // Allocates a stack of `stack_bytes` bytes. With 0 it allocates nothing, and the object
  // represents the stack that is running.
  explicit Context(size_t stack_bytes);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The next switch to this context calls `entry`, which must not return. The previous call on this
  // stack is abandoned: no destructor runs.
  void Begin(void (*entry)());

  // Suspends `from`, which is running, and resumes `to` where it was suspended.
  static void Switch(Context& from, Context& to);
  // Must be called first in `entry`.
  void Entered();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonring::kernels::fibers

#endif  // MOONRING_KERNELS_FIBER_CONTEXT_H_
