--- Errors of what a key says, by the place where the configuration's file gives that key: whatever
-- layer finds out begins its words with the key.
local errors = require "moonring.errors"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"

---@class moonring.placed
local placed = {}

-- Rooms of native functions that take what keys say: "trainer.schedule: " in a message is theirs.
local ROOMS = { trainer = true, data = true, model = true, attention = true, comm = true,
  objectives = true }

-- The key that words begin with, by its own name, and these words: "KEY: ..", "KEY must ..", "KEY
-- is ..". A function that stands before it is none of the user's, and goes.
local function key_of(words)
  local room, rest = words:match "^(%l+)%.[%l_]+: (.*)$"
  local bare = ROOMS[room] and rest or words
  local name = bare:match "^([%w_]+)[%s:]" or ""
  name = keys.aliases[name] or name
  if key_values.rows()[name] then return name, bare end
end

local function answer(c, ok, ...)
  if ok then return ... end
  local why = ...
  local code, key, words = errors.code(why), key_of(errors.words(why))
  if code and key then errors.raise(code, c.places[key] or "", words) end
  error(why, 0)
end

--- Calls a function; an error whose words begin with a key that the file gave begins with its place
--- there ("train.yaml:3: ").
---@param c moonring.Configuration
---@param f function
---@param ... any what f takes
---@return any ... what f gives
function placed.call(c, f, ...) return answer(c, pcall(f, ...)) end

return placed
