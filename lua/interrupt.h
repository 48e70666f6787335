#ifndef MOONRING_LUA_INTERRUPT_H_
#define MOONRING_LUA_INTERRUPT_H_

// Ctrl-C (SIGINT) at a prompt: stops running code, or abandons the typed line; the process
// continues. In scripts it ends the run: lua/preemption.h.
//
// Between BeginInterruptible and EndInterruptible the signal sets a flag that Lua checks when it
// counts instructions (lua/limits.h), so a running operator ends first. Otherwise it wakes the
// reader of a line. A signal that arrives by two ways counts once (lua/signal_count.h).

#include <memory>

#include "lua/limits.h"

namespace moonring::lua {

// From here on SIGINT is an interrupt. Returns the flag, for the limits of a Lua state.
std::shared_ptr<const CancelFlag> CatchInterrupts();

// Mark the beginning and end of code that an interrupt stops. End returns whether there was an
// interrupt.
void BeginInterruptible();
bool EndInterruptible();

// Whether running code was asked to stop. Thread-safe.
bool IsInterrupted();

// A descriptor that is readable after an interrupt while nothing ran; -1 before CatchInterrupts.
int InterruptDescriptor();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_INTERRUPT_H_
