#ifndef MOONRING_LUA_INTERRUPT_H_
#define MOONRING_LUA_INTERRUPT_H_

// Ctrl-C (SIGINT) at a prompt: what runs is stopped and what is typed is given up; the process
// lives on. In scripts it ends a run: lua/preemption.h.
//
// Between BeginInterruptible and EndInterruptible it sets a flag, which Lua sees where its
// instructions are counted (lua/limits.h): an operator that is running ends first. Else it wakes
// who reads a line. A signal that arrives by two ways counts once (lua/signal_count.h).

#include <memory>

#include "lua/limits.h"

namespace moonring::lua {

// From here on SIGINT is an interrupt. The flag, for the limits of a state.
std::shared_ptr<const CancelFlag> CatchInterrupts();

// Something begins, or has ended, that an interrupt stops. Gives whether one came.
void BeginInterruptible();
bool EndInterruptible();

// Whether what runs is asked to stop. Any thread.
bool IsInterrupted();

// Readable where an interrupt came while nothing ran; -1 before CatchInterrupts.
int InterruptDescriptor();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_INTERRUPT_H_
