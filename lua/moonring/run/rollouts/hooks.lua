--- Calls a script's functions that take part in generating completions (choices/rollout_hooks.lua),
-- with the prompt's row and the turn's text. They are called on the first rank of each sp group
-- only, which generates the completions of its prompts.
local options = require "moonring.base.options"

---@class moonring.hooks_of_rollouts
local hooks = {}

-- The text of a completion's current turn.
local function text_of(tokenizer, completion)
  local ids = {}
  for t = completion.first, #completion.ids do ids[#ids + 1] = completion.ids[t] end
  return tokenizer:decode(ids, true)
end

-- Encodes what `continue` returned.
local function encoded(rollouts, completion, given)
  if type(given) == "string" then return rollouts.run.tokenizer:encode(given) end
  if type(given) ~= "table" or given.role == nil then return given end
  options.check("continue", given, { role = "string", content = "string" })
  return rollouts.template:encode_next(given.role, given.content,
    completion.ids[#completion.ids])
end

--- Adds hooks to the options of model:rollout.
---@param rollouts moonring.Rollouts
---@param given moonring.RolloutHooks
---@param prompts moonring.RolloutRow[]
---@param mine integer[] for each prompt of model:rollout, its index in `prompts`
---@param wanted moonring.RolloutOptions
function hooks.add(rollouts, given, prompts, mine, wanted)
  local tokenizer = rollouts.run.tokenizer
  local function place(completion)
    if completion.row then return end
    completion.prompt = mine[completion.prompt]
    completion.row = prompts[completion.prompt]
  end
  wanted.max_turns, wanted.stop_texts = given.max_turns, given.stop_texts
  wanted.tokenizer = given.stop_texts and tokenizer or nil
  wanted.logits = given.logits and function(logits, completions)
    for _, each in ipairs(completions) do place(each) end
    return given.logits(logits, completions)
  end
  wanted.continue = given.continue and function(completion)
    place(completion)
    completion.text = text_of(tokenizer, completion)
    return encoded(rollouts, completion, given.continue(completion))
  end
end

return hooks
