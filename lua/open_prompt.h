#ifndef MOONRING_LUA_OPEN_PROMPT_H_
#define MOONRING_LUA_OPEN_PROMPT_H_

// Makes a process the host of a prompt, before its virtual machine is made: from here on Ctrl-C
// stops what runs (lua/interrupt.h), lines are typed with a history where stdin and stdout are a
// terminal, and the ranks hear one another.
//
// The history is $XDG_STATE_HOME/moonring/history, or below ~/.local/state; under the sandbox it is
// in no file.

#include "absl/status/status.h"
#include "lua/vm.h"

namespace moonring::lua {

// Sets host.prompt and host.limits.cancel.
absl::Status OpenPrompt(Host& host);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPEN_PROMPT_H_
