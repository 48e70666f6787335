#ifndef MOONRING_LUA_HOST_INTERRUPT_H_
#define MOONRING_LUA_HOST_INTERRUPT_H_

// Ctrl-C (SIGINT) at an interactive prompt: stops running code, or abandons the typed line; the
// process continues. In a script Ctrl-C ends the run (lua/host/preemption.h).
//
// Between BeginInterruptible and EndInterruptible the signal sets a flag that Lua checks when it
// counts instructions (lua/vm/limits.h), so an operator that is running completes first. At other
// times the signal wakes the reader of a typed line. A signal that arrives in two ways counts once
// (lua/host/signal_count.h).

#include <memory>

#include "lua/vm/limits.h"

namespace moonring::lua {

// Installs the handler of SIGINT. Returns the flag that it sets, for the limits of a Lua state.
std::shared_ptr<const CancelFlag> CatchInterrupts();

// Mark the beginning and end of code that Ctrl-C stops. EndInterruptible returns whether Ctrl-C was
// pressed.
void BeginInterruptible();
bool EndInterruptible();

// Whether Ctrl-C has asked the running code to stop. Thread-safe.
bool IsInterrupted();

// A file descriptor that becomes readable when Ctrl-C is pressed while no code runs; -1 before
// CatchInterrupts.
int InterruptDescriptor();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_INTERRUPT_H_
