--- Puts the file and line of a key before errors about its value. Whichever layer raises such an
-- error begins its message with the key.
local errors = require "moonring.base.errors"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"

---@class moonring.placed
local placed = {}

-- Lua modules of native functions that take values of keys. Their messages begin with the
-- function's name: "trainer.schedule: ".
local ROOMS = { trainer = true, data = true, model = true, attention = true, comm = true,
  objectives = true }

-- The key that a message begins with ("KEY: ..", "KEY must ..", "KEY is .."), by its own name, and
-- the message without the native function's name, which says nothing to a user.
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
