--- Reads LuaCATS annotations: those of native modules in lua/types, those of Lua modules where they
-- are written. The one parser of them: for help at the prompt, for what Tab offers, for tests that
-- hold them against the live API.
local annotated_file = require "moonring.prompt.annotated_file"
local system = require "moonring.native.system"

---@class moonring.annotations
local annotations = {}

---@class moonring.AnnotatedParameter
---@field name string
---@field type string the first word of its type
---@field types string all of its type
---@field optional boolean
---@field text string what it is; ""

---@class moonring.AnnotatedResult
---@field types string
---@field name string ""
---@field text string ""

---@class moonring.AnnotatedFunction
---@field name string
---@field class string the class that it is of
---@field text string what it does
---@field errors string what it says of errors, of `text`; ""
---@field params moonring.AnnotatedParameter[] without self
---@field returns moonring.AnnotatedResult[]
---@field method boolean called with a colon
---@field place string "types/comm.lua:12: "
---@field line integer
---@field source string its chunk, where it is Lua: "=moonring/run/batch"

---@class moonring.AnnotatedClass
---@field name string
---@field text string what it is
---@field functions table<string, moonring.AnnotatedFunction>
---@field fields table<string, moonring.AnnotatedParameter>
---@field operators table<string, boolean>
---@field order string[] its functions' names, as they are written
---@field field_order string[]
---@field bound? boolean it has a table of functions, live
---@field place string

---@class moonring.Annotations
---@field classes table<string, moonring.AnnotatedClass>
--- require's name: the class that it returns, "" of another value
---@field modules table<string, string>
---@field aliases table<string, string[]> a type's name: what it may be

-- Tables of data: a stage's row, a family's templates.
local DATA = { ["choices.stages"] = true, ["data.named_templates"] = true, ["config.keys"] = true }

local function parse_rooms(folder, prefix, into, check)
  for _, name in ipairs(system.list(folder)) do
    local path, module = folder .. "/" .. name, prefix .. name:gsub("%.lua$", "")
    if system.is_folder(path) then
      parse_rooms(path, module .. ".", into, check)
    elseif name == "init.lua" then -- the API's face is described in lua/types/moonring.lua
      if prefix ~= "" then
        annotated_file.parse(path, "moonring." .. prefix:sub(1, -2), into, check)
      end
    elseif not DATA[prefix:sub(1, -2)] then
      annotated_file.parse(path, "moonring." .. module, into, check)
    end
  end
end

--- What all files say.
---@param types string the folder of native modules' annotations, lua/types
---@param rooms string the folder of Lua modules, lua/moonring
---@param check? fun(holds: any, ...: string) told of each rule that a file must keep, with words
---   about where it does not; nobody where absent
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
