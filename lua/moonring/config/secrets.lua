--- Hides secret values in messages, because terminals are recorded and logs are sent to others. A
-- value is secret if its key is marked as secret, or if the key seems to be a misspelt name of such
-- a key.
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.secrets
local secrets = {}

-- Patterns of names that usually belong to credentials.
local WORDS = { "token$", "secret", "passw", "api_?key", "webhook" }

local is_secret, names = {}, {}
for row in keys.rows() do
  is_secret[row[1]], names[#names + 1] = row.secret == true, row[1]
end

--- Whether the value of a name must not be shown.
---@param name string a key, possibly misspelt
---@return boolean
function secrets.is_one(name)
  name = keys.aliases[name] or name
  if is_secret[name] ~= nil then return is_secret[name] end
  local lower = name:lower():gsub("%-", "_")
  for _, word in ipairs(WORDS) do
    if lower:find(word) then return true end
  end
  return is_secret[system.did_you_mean(name, names):match "'([%w_]+)'"] or false
end

--- The text of a value for messages: "***" for secrets.
---@param name string
---@param text string
---@return string
function secrets.shown(name, text) return secrets.is_one(name) and "***" or text end

return secrets
