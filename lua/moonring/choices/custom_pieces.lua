--- Custom components of a run: objective, optimizer, schedule and others. Either a key names a Lua
-- file that returns the component (`optim: mine.lua`, relative to the working directory, as
-- dataset_dir is), or a script passes it to run.open. A file is read once per run, before the first
-- step. Its digest must be the same on all ranks, and in a resumed run the same as in the
-- checkpoint; other files that it reads are not compared. Under --sandbox it has the restrictions
-- of a user's script.
local errors = require "moonring.base.errors"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"

---@class moonring.custom_pieces
local custom_pieces = {}

--- Custom components that a script passes to run.open.
---@class moonring.RunOptions
--- `objective` replaces the stage's objective. If it is a function, that creates it for the model.
---@field objective? moonring.Objective | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.Objective
--- `optimizer` replaces `optim` by a rule (moonring.optimizer), or a function that creates one.
---@field optimizer? moonring.OptimizerRule | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.OptimizerRule
--- `schedule` replaces lr_scheduler_type: a function that maps a step to its learning rate, or a
--- table with a state.
---@field schedule? moonring.ScheduleFunction | moonring.ScheduleTable
--- `data` replaces the data sets (see moonring.data.source). If it is a function, that creates it.
---@field data? moonring.SourceTable | moonring.Source | thread | fun(c: moonring.Configuration,
---   tokenizer: moonring.Tokenizer): moonring.SourceTable
--- `order` replaces the shuffle: it returns the order of an epoch's examples (epochs count from 0),
--- as a permutation of the indices of `lengths`, the examples' numbers of tokens. It must be a pure
--- function.
---@field order? fun(lengths: integer[], epoch: integer): integer[]
--- `micro_batches` groups a step's examples into micro-batches: it returns lists of indices into
--- `lengths`, each index once. `budget` is micro_batch_tokens; a micro-batch may exceed it. The
--- groups do not affect results.
---@field micro_batches? fun(lengths: integer[], budget: integer): integer[][]
--- `rollout` replaces reward_funcs in stages that generate. It returns, for all prompts of a
--- rollout, the completions by prompt, each with its advantage; run.rollouts:complete(prompts)
--- generates completions. It must return the same on every rank, so it may depend only on its
--- arguments.
---@field rollout? fun(run: moonring.Run, prompts: moonring.RolloutRow[]): moonring.Completion[][]
--- `rollout_hooks` take part in generating completions: they change logits, or continue completions
--- with a tool's results.
---@field rollout_hooks? moonring.RolloutHooks

---@class moonring.CustomPiece
---@field value any what the file returned, or the script passed
---@field place string its source, for messages: "mine.lua", or "the script's own"
---@field digest? string of the file

-- The custom components of each configuration, by key.
local pieces = setmetatable({}, { __mode = "k" })

-- The components of a configuration. A view of another configuration, in which only a few keys
-- differ (`moonring plan` makes them), has the components of that configuration.
local function of_configuration(c)
  local meta = getmetatable(c)
  if meta and type(meta.__index) == "table" then return of_configuration(meta.__index) end
  local found = pieces[c] or {}
  pieces[c] = found
  return found
end

--- Whether a value of a key is the path of a Lua file.
---@param value any
---@return boolean
function custom_pieces.is_file(value)
  return type(value) == "string" and value:find "%.lua$" ~= nil
end

local function read(key, path)
  local ok, text = pcall(system.read, path)
  if not ok then errors.fail(key, ": ", errors.words(text)) end
  local globals = sandbox.is_confined() and sandbox.globals() or _G
  local chunk, why = load(text, "@" .. path, "t", globals)
  if not chunk then errors.fail(key, ": ", why) end
  local done, value = pcall(chunk)
  if not done then
    local placed = tostring(value):find(path, 1, true) -- the message already contains FILE:LINE
    errors.prefix(value, key, ": ", placed and "" or path .. ": ")
  end
  return { value = value, place = path, digest = system.sha1(text) }
end

--- Registers components that a script passes; `brought` has them by the key that each replaces.
--- Errors: INVALID_ARGUMENT if the configuration also names a file for that key.
---@param c moonring.Configuration
---@param brought table<string, any>
function custom_pieces.bring(c, brought)
  for key, value in pairs(brought) do
    if custom_pieces.is_file(c[key]) then
      errors.fail(key, ": ", c[key], ": the script passes a custom one too")
    end
    of_configuration(c)[key] = { value = value, place = "the script's own" }
  end
end

--- The custom component that replaces a key's value; nil if there is none. Errors: INVALID_ARGUMENT
--- if its file cannot be read, is not valid Lua, raises an error, or returns nothing.
---@param c moonring.Configuration
---@param key string
---@return moonring.CustomPiece?
function custom_pieces.of(c, key)
  local found = of_configuration(c)
  if not found[key] and custom_pieces.is_file(c[key]) then
    local piece = read(key, c[key])
    if piece.value == nil then errors.fail(key, ": ", c[key], ": it returns nothing") end
    found[key] = piece
  end
  return found[key]
end

--- Raises the error INVALID_ARGUMENT about a custom component.
---@param piece moonring.OwnPiece
---@param key string
---@param ... string | number pieces of the message, concatenated
function custom_pieces.refuse(piece, key, ...) errors.fail(key, ": ", piece.place, ": ", ...) end

--- The text by which configurations are compared if a key names a Lua file: "mine.lua (sha1 ...)";
--- nil if the key names no file.
---@param c moonring.Configuration
---@param key string
---@return string?
function custom_pieces.mark(c, key)
  local piece = custom_pieces.is_file(c[key]) and custom_pieces.of(c, key)
  return piece and ("%s (sha1 %s)"):format(piece.place, piece.digest) or nil
end

--- Whether two texts that `mark` returned name files with the same contents.
---@param a any
---@param b any
---@return boolean
function custom_pieces.same(a, b)
  local function digest(mark) return type(mark) == "string" and mark:match "%(sha1 (%x+)%)$" end
  local of_a = digest(a)
  return of_a and of_a == digest(b) or false
end

return custom_pieces
