--- Custom components of a run: objective, optimizer, schedule and others. Either a key names a Lua
-- file that returns the component (`optim: mine.lua`, relative to the working directory, as
-- dataset_dir), or a script passes it to run.open. A file is read once per run, before the first
-- step. Its digest is compared between ranks, and between a resumed run and its checkpoint; files
-- that it requires or reads itself are not compared. Under --sandbox it has the same restrictions
-- as a user's script.
local errors = require "moonring.base.errors"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"

---@class moonring.own_pieces
local own_pieces = {}

--- Custom components that a script passes to run.open.
---@class moonring.RunOptions
--- replaces the stage's objective; a function creates it for the model
---@field objective? moonring.Objective | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.Objective
--- replaces `optim`: a rule (moonring.optimizer); a function creates it for the model
---@field optimizer? moonring.OptimizerRule | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.OptimizerRule
--- replaces lr_scheduler_type: a function from the step to the learning rate, or a table with state
---@field schedule? moonring.ScheduleFunction | moonring.ScheduleTable
--- replaces the data sets (see moonring.data.source); a function creates it
---@field data? moonring.SourceTable | moonring.Source | thread | fun(c: moonring.Configuration,
---   tokenizer: moonring.Tokenizer): moonring.SourceTable
--- replaces the shuffle: the order of the examples in an epoch (from 0) as a permutation of the
--- indices of `lengths` (tokens of each example). Must be a pure function
---@field order? fun(lengths: integer[], epoch: integer): integer[]
--- groups a step's examples into micro-batches: lists of indices into `lengths`, each index once.
--- `budget` is micro_batch_tokens, which a micro-batch may exceed. Does not affect results
---@field micro_batches? fun(lengths: integer[], budget: integer): integer[][]
--- replaces reward_funcs in stages that generate: returns the completions by prompt, each with its
--- advantage, for all prompts of a rollout; run.rollouts:complete(prompts) generates them. Must
--- return the same on every rank, so must depend only on its arguments
---@field rollout? fun(run: moonring.Run, prompts: moonring.RolloutRow[]): moonring.Completion[][]

---@class moonring.OwnPiece
---@field value any what the file returned, or the script passed
---@field place string its source, for messages: "mine.lua", or "the script's own"
---@field digest? string of the file

-- Components by configuration, then by key.
local pieces = setmetatable({}, { __mode = "k" })

-- The table of a configuration. A view that overrides a few keys of another configuration, as
-- `plan` makes, shares the other one's table.
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
function own_pieces.is_file(value)
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

--- Registers components that a script passes, by the key that each replaces. Errors:
--- INVALID_ARGUMENT if the configuration also names a file for that key.
---@param c moonring.Configuration
---@param brought table<string, any>
function own_pieces.bring(c, brought)
  for key, value in pairs(brought) do
    if own_pieces.is_file(c[key]) then
      errors.fail(key, ": ", c[key], ": the script passes a custom one too")
    end
    of_configuration(c)[key] = { value = value, place = "the script's own" }
  end
end

--- The custom component of a key; nil if it has none. Errors: INVALID_ARGUMENT if the file cannot
--- be read, is not valid Lua, raises an error, or returns nothing.
---@param c moonring.Configuration
---@param key string
---@return moonring.OwnPiece?
function own_pieces.of(c, key)
  local found = of_configuration(c)
  if not found[key] and own_pieces.is_file(c[key]) then
    local piece = read(key, c[key])
    if piece.value == nil then errors.fail(key, ": ", c[key], ": it returns nothing") end
    found[key] = piece
  end
  return found[key]
end

--- Raises an INVALID_ARGUMENT about a component.
---@param piece moonring.OwnPiece
---@param key string
---@param ... string | number pieces of the message, concatenated
function own_pieces.refuse(piece, key, ...) errors.fail(key, ": ", piece.place, ": ", ...) end

--- The value that represents a key's file when configurations are compared: "mine.lua (sha1 ...)";
--- nil if the key names no file.
---@param c moonring.Configuration
---@param key string
---@return string?
function own_pieces.mark(c, key)
  local piece = own_pieces.is_file(c[key]) and own_pieces.of(c, key)
  return piece and ("%s (sha1 %s)"):format(piece.place, piece.digest) or nil
end

--- Whether two values, both made by `mark`, represent files with the same contents.
---@param a any
---@param b any
---@return boolean
function own_pieces.same(a, b)
  local function digest(mark) return type(mark) == "string" and mark:match "%(sha1 (%x+)%)$" end
  local of_a = digest(a)
  return of_a and of_a == digest(b) or false
end

return own_pieces
