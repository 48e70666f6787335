--- Pieces of a run that are its user's own: an objective, an optimizer, a schedule. A key names a
-- Lua file (`optim: mine.lua`, from the working directory, as dataset_dir), which returns the
-- piece; or a script brings it (run.open). A file is read once a run, before its first step, and
-- its digest stands for it where ranks are compared, and a run with the one that it goes on from;
-- what it requires or reads itself is not looked at. Under --sandbox it runs confined as a user's
-- script.
local errors = require "moonring.base.errors"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"

---@class moonring.own_pieces
local own_pieces = {}

--- What a script brings to run.open.
---@class moonring.RunOptions
--- in place of the stage's; a function makes it of the model
---@field objective? moonring.Objective | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.Objective
--- in place of the key `optim`'s: a rule (moonring.optimizer); a function makes it of the model
---@field optimizer? moonring.OptimizerRule | fun(c: moonring.Configuration, model: moonring.Model):
---   moonring.OptimizerRule
--- in place of lr_scheduler_type's: the rate as a function of the step, or a table that remembers
---@field schedule? moonring.ScheduleFunction | moonring.ScheduleTable
--- in place of the data sets: moonring.data.source; a function makes it
---@field data? moonring.SourceTable | moonring.Source | thread | fun(c: moonring.Configuration,
---   tokenizer: moonring.Tokenizer): moonring.SourceTable
--- the order of the examples in an epoch, from 0: each place in `lengths` (tokens of the examples)
--- once, the first first. In place of the shuffle; a pure function
---@field order? fun(lengths: integer[], epoch: integer): integer[]
--- which examples of a step go through one forward together: places in `lengths`, each once.
--- `budget`: micro_batch_tokens, which it may go beyond. Changes no number
---@field micro_batches? fun(lengths: integer[], budget: integer): integer[][]
--- in place of reward_funcs, in stages that generate: completions of prompts, by prompt, each with
--- its advantage, and all of a rollout together; run.rollouts:complete(prompts) makes them. The
--- same on every rank: a pure function of what it sees
---@field rollout? fun(run: moonring.Run, prompts: moonring.RolloutRow[]): moonring.Completion[][]

---@class moonring.OwnPiece
---@field value any what the file returned, or the script gave
---@field place string for messages: "mine.lua", or "the script's own"
---@field digest? string of the file

-- By configuration, then by key.
local pieces = setmetatable({}, { __mode = "k" })

-- One that others change a few keys of, as `plan` does, is looked through.
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
    local placed = tostring(value):find(path, 1, true) -- by its line
    errors.prefix(value, key, ": ", placed and "" or path .. ": ")
  end
  return { value = value, place = path, digest = system.sha1(text) }
end

--- Takes pieces that a script brings, by the keys that they stand in for. Errors: INVALID_ARGUMENT
--- where the configuration names a file for one of them too.
---@param c moonring.Configuration
---@param brought table<string, any>
function own_pieces.bring(c, brought)
  for key, value in pairs(brought) do
    if own_pieces.is_file(c[key]) then
      errors.fail(key, ": ", c[key], ": the script brings one of its own")
    end
    of_configuration(c)[key] = { value = value, place = "the script's own" }
  end
end

--- The own piece of a key; nil where it has none. Errors: INVALID_ARGUMENT for a file that cannot
--- be read, is no Lua, fails, or returns nothing.
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

--- Ends with what is wrong with a piece.
---@param piece moonring.OwnPiece
---@param key string
---@param ... string | number the words
function own_pieces.refuse(piece, key, ...) errors.fail(key, ": ", piece.place, ": ", ...) end

--- What stands for the file of a key where configurations are compared: "mine.lua (sha1 ...)"; nil
--- where it names none.
---@param c moonring.Configuration
---@param key string
---@return string?
function own_pieces.mark(c, key)
  local piece = own_pieces.is_file(c[key]) and own_pieces.of(c, key)
  return piece and ("%s (sha1 %s)"):format(piece.place, piece.digest) or nil
end

--- Whether two marks, or values of keys, are of files with the same contents.
---@param a any
---@param b any
---@return boolean
function own_pieces.same(a, b)
  local function digest(mark) return type(mark) == "string" and mark:match "%(sha1 (%x+)%)$" end
  local of_a = digest(a)
  return of_a and of_a == digest(b) or false
end

return own_pieces
