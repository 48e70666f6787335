#ifndef MOONRING_LUA_PROMPT_H_
#define MOONRING_LUA_PROMPT_H_

// What a prompt (`moonring repl`) has of its process. The prompt itself is Lua:
// lua/moonring/prompt.

#include <memory>

#include "lua/prompt_ranks.h"
#include "lua/typed_line.h"

namespace moonring::lua {

struct Prompt {
  LineReader read_line;                // empty: lines come from stdin as they are
  std::shared_ptr<PromptRanks> ranks;  // null: this process is alone
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PROMPT_H_
