--- The command line of this process, to be shown and repeated. Secret values never occur in it.
local command_words = require "moonring.base.command_words"
local key_values = require "moonring.config.key_values"
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"

---@class moonring.own_command
local own_command = {}

-- The script lua/dist/moonring.sh, which starts the program of an archive.
local CALLED_AS = system.environment "MOONRING_CALLED_AS"

--- The words, the program first; empty in an embedded runtime. Secret keys are omitted.
---@param omitted? string a further key to omit
---@return string[]
function own_command.words(omitted)
  local given = system.command()
  local words, rest = { given[1] and (CALLED_AS or given[1]) }, { unpack(given, 2) }
  local next_word = 1
  for _, each in ipairs(command_words.read(rest, key_values.kind)) do
    local is_omitted = each.name and (each.name == omitted or secrets.is_one(each.name))
    for i = next_word, next_word + each.count - 1 do
      if not is_omitted then words[#words + 1] = rest[i] end
    end
    next_word = next_word + each.count
  end
  return words
end

return own_command
