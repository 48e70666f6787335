--- Values that no message shows: of keys that are secrets (keys: secret), and of misspelt names of
-- such keys. A terminal is recorded, a log is sent to others.
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.secrets
local secrets = {}

-- Words in the names of what holds a password of some kind.
local WORDS = { "token$", "secret", "passw", "api_?key", "webhook" }

local is_secret, names = {}, {}
for row in keys.rows() do
  is_secret[row[1]], names[#names + 1] = row.secret == true, row[1]
end

--- Whether what stands under a name is not to be shown.
---@param name string a key, or what was meant for one
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

--- A value's text for a message about a key.
---@param name string
---@param text string
---@return string
function secrets.shown(name, text) return secrets.is_one(name) and "***" or text end

return secrets
