#ifndef MOONRING_LUA_HOST_PROMPT_H_
#define MOONRING_LUA_HOST_PROMPT_H_

// The native objects of an interactive prompt (`moonring repl`). The prompt itself is written in
// Lua: lua/moonring/prompt.

#include <memory>

#include "lua/host/prompt_ranks.h"
#include "lua/host/typed_line.h"

namespace moonring::lua {

struct Prompt {
  LineReader read_line;                // empty: lines come from stdin without editing
  std::shared_ptr<PromptRanks> ranks;  // null: a single process
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_PROMPT_H_
