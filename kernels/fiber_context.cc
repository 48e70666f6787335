#include "kernels/fiber_context.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define KERNEL_FIBERS_UCONTEXT
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define KERNEL_FIBERS_UCONTEXT
#elif !defined(__x86_64__)
#define KERNEL_FIBERS_UCONTEXT
#endif

#ifndef KERNEL_FIBERS_UCONTEXT
// MoonringSwitchFiber pushes the callee-saved registers, stores the stack pointer in *save, and
// switches to the stack `load`.
extern "C" void MoonringSwitchFiber(void** save, void* load);
asm(R"(
.text
.globl MoonringSwitchFiber
.type MoonringSwitchFiber, @function
MoonringSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size MoonringSwitchFiber, .-MoonringSwitchFiber
)");
#endif

namespace moonring::kernels::fibers {

struct Context::State {
  char* stack = nullptr;
  size_t bytes = 0;
#ifdef KERNEL_FIBERS_UCONTEXT
  ucontext_t context;
#else
  void* top = nullptr;
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  const void* bottom = nullptr;  // of the thread's own stack, once known
  State* last = nullptr;         // the context that was suspended for this one
#elif defined(__SANITIZE_THREAD__)
  void* fiber = nullptr;
#endif
};

Context::Context(size_t stack_bytes) : state_(std::make_unique<State>()) {
  state_->bytes = stack_bytes;
  if (stack_bytes > 0) {
    void* const stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    state_->stack = static_cast<char*>(stack);
  }
#if defined(__SANITIZE_THREAD__)
  state_->fiber = stack_bytes > 0 ? __tsan_create_fiber(0) : __tsan_get_current_fiber();
#endif
}

Context::~Context() {
#if defined(__SANITIZE_THREAD__)
  if (state_->stack != nullptr) __tsan_destroy_fiber(state_->fiber);
#endif
  if (state_->stack != nullptr) munmap(state_->stack, state_->bytes);
}

void Context::Begin(void (*entry)()) {
#ifdef KERNEL_FIBERS_UCONTEXT
  getcontext(&state_->context);
  state_->context.uc_stack.ss_sp = state_->stack;
  state_->context.uc_stack.ss_size = state_->bytes;
  state_->context.uc_link = nullptr;
  makecontext(&state_->context, entry, 0);
#else
  // A stack as if `entry` had been called: a return address, then six registers.
  auto** top = reinterpret_cast<void**>(state_->stack + state_->bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  state_->top = top;
#endif
}

void Context::Switch(Context& from, Context& to) {
  State &left = *from.state_, &next = *to.state_;
#if defined(__SANITIZE_ADDRESS__)
  next.last = &left;
  __sanitizer_start_switch_fiber(&left.fake_stack, next.stack != nullptr ? next.stack : next.bottom,
                                 next.bytes);
  swapcontext(&left.context, &next.context);
  from.Entered();
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(next.fiber, 0);
  swapcontext(&left.context, &next.context);
#elif defined(KERNEL_FIBERS_UCONTEXT)
  swapcontext(&left.context, &next.context);
#else
  MoonringSwitchFiber(&left.top, next.top);
#endif
}

void Context::Entered() {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(state_->fake_stack, &bottom, &bytes);
  State* const last = state_->last;
  if (last != nullptr && last->stack == nullptr) {
    last->bottom = bottom;
    last->bytes = bytes;
  }
#endif
}

}  // namespace moonring::kernels::fibers
