#ifndef MOONRING_LUA_HOST_OPEN_PROMPT_H_
#define MOONRING_LUA_HOST_OPEN_PROMPT_H_

// Prepares a process for an interactive prompt, before its Lua state is created: Ctrl-C then stops
// running code (lua/host/interrupt.h), lines are edited with a history if stdin and stdout are a
// terminal, and ranks are connected to rank 0.
//
// The history file is $XDG_STATE_HOME/moonring/history, by default below ~/.local/state; under
// --sandbox there is no file.

#include "absl/status/status.h"
#include "lua/vm/vm.h"

namespace moonring::lua {

// Opens the prompt: sets host.prompt and host.limits.cancel.
absl::Status OpenPrompt(Host& host);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_OPEN_PROMPT_H_
