--- Parses the key optim_args, options of the optimizer that `optim` selects, in the syntax of
-- Transformers: "name=value, name=value".
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.optim_args
local optim_args = {}

local READERS = {
  number = tonumber,
  integer = function(text)
    local value = tonumber(text)
    return value and value % 1 == 0 and value or nil
  end,
  boolean = function(text) return ({ ["true"] = true, ["false"] = false })[text:lower()] end,
  string = function(text) return text end,
}

local function refuse(...) errors.fail("optim_args: ", ...) end

--- Parses options into a table by name. `known` maps names to types. Errors: INVALID_ARGUMENT for
--- an unknown name or a value of another type.
---@param text? string
---@param known table<string, "number" | "integer" | "boolean" | "string">
---@param optim string name of the optimizer, for messages
---@return table<string, any>
function optim_args.read(text, known, optim)
  local args, names = {}, {}
  if not text then return args end
  if type(text) ~= "string" then refuse("expected name=value, got ", tostring(text)) end
  for name in pairs(known) do names[#names + 1] = name end
  for pair in text:gsub("%s", ""):gmatch "[^,]+" do
    local name, value = pair:match "^([^=]+)=([^=]+)$"
    if not name then refuse("expected name=value, got '", pair, "'") end
    if #names == 0 then refuse("optim: ", optim, " takes none, got '", name, "'") end
    local kind = known[name]
    if not kind then
      refuse("optim: ", optim, " has no '", name, "'", system.did_you_mean(name, names),
        "; known: ", table.concat(names, ", "))
    end
    local read = READERS[kind](value)
    if read == nil then
      refuse(name, ": expected ", kind == "integer" and "an " or "a ", kind, ", got '", value, "'")
    end
    args[name] = read
  end
  return args
end

return optim_args
