-- Reads LuaCATS annotations: those of native modules in lua/types, those of Lua modules where they
-- are written. Returns a function of the two folders and of `check` (condition, words...), that
-- gives
--   classes  name -> { functions = { name -> { params = { { name, type, optional } }, method } },
--            fields = { name -> { type, optional, text } }, operators, bound }
--   modules  require's name -> the class that it returns
--   aliases  name -> true
local moonring = require "moonring"

local classes, modules, aliases, check = {}, {}, {}, nil

-- What a file says as it is read, line by line.
local File = {}
File.__index = File

local function copied(parent, into)
  for kind in pairs { fields = true, functions = true, operators = true } do
    for name, each in pairs(parent[kind]) do into[kind][name] = each end
  end
end

function File:class_of(name, rest)
  local parent = rest:match "^: (%S+)"
  check(not classes[name], self.place, "class ", name, " a second time")
  self.class = { name = name, functions = {}, fields = {}, operators = {}, place = self.place }
  classes[name] = self.class
  if not parent then return end
  check(classes[parent], self.place, name, " is a ", parent, ", which no line before this has")
  if classes[parent] then copied(classes[parent], self.class) end
end

function File:tag(line)
  self.tagged = true
  local name, rest = line:match "^%-%-%-@class ([%w_.]+)(.*)$"
  if name then self:class_of(name, rest) end
  local alias = line:match "^%-%-%-@alias (%S+)"
  if alias then aliases[alias] = true end
  local field, text = line:match "^%-%-%-@field (%S+) (.*)$"
  if field then
    self.class.fields[field:gsub("%?$", "")] = { type = text:match "^%S+", text = text,
      optional = field:find "%?$" ~= nil }
  end
  local operator = line:match "^%-%-%-@operator (%a+)"
  if operator then self.class.operators[operator] = true end
  local param, kind = line:match "^%-%-%-@param (%S+) (%S+)"
  if param then
    self.params[#self.params + 1] = { name = (param:gsub("%?$", "")), type = kind,
      optional = param:find "%?$" ~= nil }
  end
end

-- A function's line: "function owner.called(list)". Of functions over several lines the list must
-- stand on the first.
function File:declares(owner, separator, called, list)
  local class = self.bound[owner]
  if not class or called:find "^__" then return end -- a table of the file's own, an operator
  local written, described = {}, {}
  for word in list:gmatch "[^%s,]+" do written[#written + 1] = word end
  for i, each in ipairs(self.params) do described[i] = each.name end
  written, described = table.concat(written, ", "), table.concat(described, ", ")
  check(written == described, self.place, called, "(", list, ") describes (", described, ")")
  check(self.told or called == "close", self.place, called, " is not described in words")
  class.functions[called] = { params = self.params, method = separator == ":",
    place = self.place }
end

function File:line(line)
  if self.quoted then -- within [[ and ]]
    self.quoted = not line:find "^%]%]"
    return
  end
  self.quoted = line:find "%[%[$" ~= nil
  if line:match "^%-%-%-@" then return self:tag(line) end
  if line:match "^%-%-%- %S" then
    self.told = true
    return
  end
  if line:match "^%-%-" then return end
  local variable = line:match "^local (%a[%w_]*) = {}"
  if variable and self.class and self.tagged and not self.class.bound then
    self.bound[variable], self.class.bound = self.class, true
  end
  local owner, separator, called, list = line:match "^function ([%w_]+)([.:])([%w_]+)%((.-)%)"
  if owner then self:declares(owner, separator, called, list) end
  local returned = line:match "^return (%a[%w_]*)$"
  if returned and self.bound[returned] then modules[self.module] = self.bound[returned].name end
  if line:match "^return function" or line:match "^return {" then modules[self.module] = "" end
  self.params, self.told, self.tagged = {}, false, false
end

local function parse(path, module)
  local file = setmetatable({ bound = {}, params = {}, told = false, module = module }, File)
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    file.place = ("%s:%d: "):format(path:match "[^/]*/[^/]*$", n)
    if not file.quoted then file.module = line:match "^%-%-%-@meta (%S+)" or file.module end
    file:line(line)
  end
  local types_alone = file.class and not next(file.bound)
  if types_alone then modules[file.module] = nil end
  check(modules[file.module] or types_alone, path,
    ": wanted a class, and a module that is returned")
end

-- Tables of data: a stage's row, a family's templates.
local DATA = { ["run.stages"] = true, ["data.named_templates"] = true, ["config.keys"] = true }

local function parse_rooms(folder, prefix)
  for _, name in ipairs(moonring.system.list(folder)) do
    local path, module = folder .. "/" .. name, prefix .. name:gsub("%.lua$", "")
    if moonring.system.is_folder(path) then
      parse_rooms(path, module .. ".")
    elseif name == "init.lua" then -- the API's face is described in lua/types/moonring.lua
      if prefix ~= "" then parse(path, "moonring." .. prefix:sub(1, -2)) end
    elseif not DATA[prefix:sub(1, -2)] then
      parse(path, "moonring." .. module)
    end
  end
end

return function(types, rooms, told)
  check = told
  for _, name in ipairs(moonring.system.list(types)) do parse(types .. "/" .. name) end
  parse_rooms(rooms, "")
  return classes, modules, aliases
end
