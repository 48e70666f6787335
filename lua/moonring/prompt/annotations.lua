--- Reads LuaCATS annotations: those of native modules from lua/types, those of Lua modules from
-- their sources. The prompt uses them for help and completion, docs/lua for its pages, and tests
-- compare them with the live API.
local annotated_file = require "moonring.prompt.annotated_file"
local system = require "moonring.native.system"

---@class moonring.annotations
local annotations = {}

---@class moonring.AnnotatedParameter
---@field name string
---@field type string the first word of its type
---@field types string its whole type
---@field optional boolean
---@field text string its description; may be ""

---@class moonring.AnnotatedResult
---@field types string
---@field name string ""
---@field text string ""

---@class moonring.AnnotatedFunction
---@field name string
---@field class string its class
---@field text string its description
---@field errors string the description of errors within `text`; may be ""
---@field params moonring.AnnotatedParameter[] without self
---@field returns moonring.AnnotatedResult[]
---@field method boolean called with a colon
---@field place string "types/comm.lua:12: "
---@field line integer
---@field source string the chunk's name of a function in Lua: "=moonring/run/batch"

---@class moonring.AnnotatedClass
---@field name string
---@field text string its description
---@field functions table<string, moonring.AnnotatedFunction>
---@field fields table<string, moonring.AnnotatedParameter>
---@field operators table<string, boolean>
---@field order string[] names of its functions, in source order
---@field field_order string[]
---@field bound? boolean whether it has a live table of functions
---@field place string

--- The annotations of all files: classes, modules and type aliases.
---@class moonring.Annotations
---@field classes table<string, moonring.AnnotatedClass>
--- `modules`: name for require -> the class that the module returns, or "" for another value.
---@field modules table<string, string>
---@field aliases table<string, string[]> alias -> its types

-- Folders of plain data without annotations: stages, templates, keys.
local DATA = { ["choices.stages"] = true, ["data.named_templates"] = true, ["config.keys"] = true }

local function parse_rooms(folder, prefix, into, check)
  for _, name in ipairs(system.list(folder)) do
    local path, module = folder .. "/" .. name, prefix .. name:gsub("%.lua$", "")
    if system.is_folder(path) then
      parse_rooms(path, module .. ".", into, check)
    elseif name == "init.lua" then -- see lua/types/moonring.lua for the top one
      if prefix ~= "" then
        annotated_file.parse(path, "moonring." .. prefix:sub(1, -2), into, check)
      end
    elseif not DATA[prefix:sub(1, -2)] then
      annotated_file.parse(path, "moonring." .. module, into, check)
    end
  end
end

--- Reads the annotations of all files. `check` is called for each rule that files must follow, with
--- whether the rule is met, and a message; by default nothing is checked.
---@param types string the folder of native modules' annotations, lua/types
---@param rooms string the folder of Lua modules, lua/moonring
---@param check? fun(holds: any, ...: string)
---@return moonring.Annotations
function annotations.read(types, rooms, check)
  check = check or function() end
  local into = { classes = {}, modules = {}, aliases = {} }
  for _, name in ipairs(system.list(types)) do
    annotated_file.parse(types .. "/" .. name, nil, into, check)
  end
  parse_rooms(rooms, "", into, check)
  return into
end

return annotations
