--- Makes it an error that a script reads a global that was never set. Lua gives nil, which in a
-- table of options means that the option is absent: a misspelt name would select the default.
--
-- This applies to the script's own file only. Libraries that it loads often ask which globals
-- exist. rawget(_G, "name") asks so in a script.
local options = require "moonring.base.options"
local system = require "moonring.native.system"

---@class moonring.script_globals
local script_globals = {}

-- Taken now, because the sandbox removes `debug`.
local getinfo, getlocal, getupvalue
if debug then getinfo, getlocal, getupvalue = debug.getinfo, debug.getlocal, debug.getupvalue end

-- The names that the function at this level of the call stack can use.
local function names_at(level, globals)
  local names, reader = {}, getinfo(level + 1, "f").func
  for name in pairs(globals) do names[#names + 1] = tostring(name) end
  local function add(get, of)
    for i = 1, math.huge do
      local name = get(of, i)
      if not name then break end
      if not name:find "^%(" then names[#names + 1] = name end
    end
  end
  add(getupvalue, reader)
  add(getlocal, level + 2)
  table.sort(names)
  return names
end

--- Guards a table of globals, unless the script has set a metatable for it.
---@param globals table
function script_globals.guard(globals)
  if not getinfo or getmetatable(globals) ~= nil then return end
  setmetatable(globals, { __index = function(_, name)
    local reader, words = getinfo(2, "S"), rawget(globals, "arg")
    local file = type(words) == "table" and words[0]
    if not reader or not file or reader.source ~= "@" .. file then return nil end
    options.refuse(("global '%s'"):format(tostring(name)), "it was never set",
      system.did_you_mean(tostring(name), names_at(2, globals)))
  end })
end

return script_globals
