--- A script's functions that take part in generating completions: `logits` changes the logits of
-- the next tokens, `continue` answers a turn, for example with a tool's result. They come from
-- run.rollouts:complete, or from the key rollout_hooks (run/rollouts/hooks.lua calls them).
local custom_pieces = require "moonring.choices.custom_pieces"
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"

---@class moonring.rollout_hooks
local rollout_hooks = {}

--- A completion that is being generated, as hooks receive it: the same table in all calls, in which
--- a hook may keep fields of its own.
---@class moonring.OpenCompletion: moonring.OpenAnswer
---@field row moonring.RolloutRow its prompt, with the columns of the data set's row
---@field text string in `continue`: the turn's text, without special tokens

--- A message that the chat template encodes.
---@class moonring.NextMessage
---@field role "tool" | "user"
---@field content string

---@class moonring.RolloutHooks
--- `logits` receives logits [rows, vocabulary] and the completion of each row; it changes them in
--- place, or returns others.
---@field logits? fun(logits: moonring.Tensor, completions: moonring.OpenCompletion[]):
---   moonring.Tensor?
--- `continue` is called when a turn ends by a stop token or a stop text. It returns what comes
--- next: a text, token ids, or a message that the chat template encodes. If it returns nothing, the
--- completion is finished.
---@field continue? fun(completion: moonring.OpenCompletion): string | integer[] |
---   moonring.NextMessage | nil
---@field stop_texts? string[] texts that end a turn, as a stop token does
---@field max_turns? integer `continue` is not called after so many turns; absent: no limit

local KEY = "rollout_hooks"
local FIELDS = { logits = "function?", continue = "function?", stop_texts = "table?",
  max_turns = "number?" }

--- Checks a table of hooks. Returns it; nil if it is empty. Errors: INVALID_ARGUMENT for an unknown
--- field or a field of a wrong type.
---@param name string the function or key that it is given to, for messages
---@param given? table
---@return moonring.RolloutHooks?
function rollout_hooks.check(name, given)
  given = options.check(name, given, FIELDS)
  if given.max_turns and not given.continue then
    errors.fail(name, ": max_turns: there is no function continue")
  end
  return next(given) and given or nil
end

--- The hooks of a configuration; nil if it has none. Errors: those of `check`.
---@param c moonring.Configuration
---@return moonring.RolloutHooks?
function rollout_hooks.of(c)
  local piece = custom_pieces.of(c, KEY)
  if not piece then return nil end
  if type(piece.value) ~= "table" then
    custom_pieces.refuse(piece, KEY, "expected a table of functions, got a ", type(piece.value))
  end
  return rollout_hooks.check(KEY .. ": " .. piece.place, piece.value)
end

return rollout_hooks
