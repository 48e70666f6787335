#ifndef MOONRING_KERNELS_FIBER_CONTEXT_H_
#define MOONRING_KERNELS_FIBER_CONTEXT_H_

// Stacks that one thread of the program switches between: on x86-64 by twelve instructions, which
// save what a function call keeps (5 ns); elsewhere, and under sanitizers, by ucontext.

#include <cstddef>
#include <memory>

namespace moonring::kernels::fibers {

class Context {
 public:
  // With `stack_bytes` of a stack of its own; 0: the one that is running.
  explicit Context(size_t stack_bytes);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The next switch to it begins `entry`, which never returns. What it was in before is forgotten:
  // no destructor runs.
  void Begin(void (*entry)());

  // Leaves `from`, which is running, and goes on where `to` was left.
  static void Switch(Context& from, Context& to);
  // First thing that `entry` does.
  void Entered();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonring::kernels::fibers

#endif  // MOONRING_KERNELS_FIBER_CONTEXT_H_
