--- Adds a key's file and line to errors about its value. Whichever module raises such an error, its
-- message begins with the key.
local errors = require "moonring.base.errors"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"

---@class moonring.placed
local placed = {}

-- Modules of native functions that receive values of keys as arguments. Their messages begin with
-- the function's name: "trainer.schedule: ".
local ROOMS = { trainer = true, data = true, model = true, attention = true, comm = true,
  objectives = true }

-- The key with which a message begins ("KEY: ..", "KEY must ..", "KEY is .."), with aliases
-- resolved. Also returns the message without the native function's name, which users do not know.
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
  if code and key then errors.reword(why, c.places[key] or "", words) end
  error(why, 0)
end

--- Calls f. If f raises an error about a key that the file sets, puts the key's position
--- ("train.yaml:3: ") before the message.
---@param c moonring.Configuration
---@param f function
---@param ... any arguments of f
---@return any ... results of f
function placed.call(c, f, ...) return answer(c, pcall(f, ...)) end

return placed
