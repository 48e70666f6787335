--- The command line of this process, to be shown and repeated. Secret values never occur in it.
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"

---@class moonring.own_command
local own_command = {}

-- The script lua/dist/moonring.sh, which starts the program of an archive.
local CALLED_AS = system.environment "MOONRING_CALLED_AS"

-- The key that a word sets, if any: key=value, --key=value or --key. Also whether the value is the
-- next word.
local function key_of(word)
  local dashes, name, rest = word:match "^(%-*)([%w_-]+)(.*)$"
  if not name or (dashes == "" and rest == "") then return nil end
  local is_set = rest:find "^[%w_.-]*[=:]" ~= nil
  if dashes == "" and not is_set then return nil end
  return (name:gsub("-", "_")), not is_set
end

--- The words, the program first; empty in an embedded runtime. Secret keys are omitted.
---@param omitted? string a further key to omit
---@return string[]
function own_command.words(omitted)
  local words, skips = {}, false
  for i, word in ipairs(system.command()) do
    local name, is_next = nil, false
    if i > 1 then name, is_next = key_of(word) else word = CALLED_AS or word end
    if name and (name == omitted or secrets.is_one(name)) then
      skips = is_next
    elseif skips and not word:find "^%-%-" then
      skips = false
    else
      words[#words + 1], skips = word, false
    end
  end
  return words
end

return own_command
