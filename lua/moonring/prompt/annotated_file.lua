--- Parses the LuaCATS annotations of one file. Used by annotations.lua.
local system = require "moonring.native.system"

---@class moonring.annotated_file
local annotated_file = {}

-- Splits a type at the beginning of `text` from the rest: `"a" | "b" rest`, `fun(x: y): z rest`.
local function split_type(text)
  local depth, quoted = 0, false
  for i = 1, #text do
    local c = text:sub(i, i)
    if c == '"' then
      quoted = not quoted
    elseif not quoted and c:find "[(<{%[]" then
      depth = depth + 1
    elseif not quoted and c:find "[)>}%]]" then
      depth = depth - 1
    elseif c == " " and depth == 0 and not quoted
      and not text:sub(1, i - 1):find "[|:,]$" and not text:find("^|", i + 1) then
      return text:sub(1, i - 1), text:sub(i + 1)
    end
  end
  return text, ""
end

local function joined(text, more) return text == "" and more or text .. "\n" .. more end

-- The parser's state. It reads a file line by line.
local File = {}
File.__index = File

function File:class_of(name, rest)
  local parent = rest:match "^: (%S+)"
  self.check(not self.classes[name], self.place, "class ", name, " a second time")
  self.class = { name = name, text = self.text, functions = {}, fields = {}, operators = {},
    order = {}, field_order = {}, place = self.place }
  self.classes[name] = self.class
  if not parent then return end
  local known = self.classes[parent]
  self.check(known, self.place, name, " is a ", parent, ", which no line before this has")
  if not known then return end
  for _, kind in ipairs { "fields", "functions", "operators" } do
    for each, value in pairs(known[kind]) do self.class[kind][each] = value end
  end
  for _, kind in ipairs { "order", "field_order" } do
    for i, each in ipairs(known[kind]) do self.class[kind][i] = each end
  end
end

-- Continues a class that an earlier file has begun (`---@class (partial)`).
function File:part_of(name)
  self.check(self.classes[name], self.place, "part of ", name, ", which no line before this has")
  self.class, self.partial = self.classes[name] or self.class, true
end

-- Parses "name? type text" of a parameter or field.
local function described(line)
  local name, rest = line:match "^(%S+) (.*)$"
  if not name then return nil end
  local types, text = split_type(rest)
  return { name = (name:gsub("%?$", "")), type = rest:match "^%S+", types = types, text = text,
    optional = name:find "%?$" ~= nil }
end

function File:tag(word, rest)
  self.tagged, self.last = true, nil
  local whole = word == "class" and rest:match "^%(partial%) ([%w_.]+)$"
  if whole then
    self:part_of(whole)
  elseif word == "class" then
    self:class_of(rest:match "^([%w_.]+)(.*)$")
  elseif word == "alias" then
    local name, types = rest:match "^(%S+) ?(.*)$" -- otherwise each type is on a line of its own
    self.alias = { types ~= "" and types or nil }
    self.aliases[name] = self.alias
  elseif word == "field" then
    local field = described(rest)
    if self.text ~= "" then field.text = (self.text .. "\n" .. field.text):gsub("%s+$", "") end
    if not self.class.fields[field.name] then
      table.insert(self.class.field_order, field.name)
    end
    self.class.fields[field.name], self.last = field, field
  elseif word == "operator" then
    self.class.operators[rest:match "^%a+"] = true
  elseif word == "param" then
    self.last = described(rest)
    self.params[#self.params + 1] = self.last
  elseif word == "return" then
    local types, text = split_type(rest)
    local name, more = text:match "^(%S+) ?(.*)$"
    self.last = { types = types, name = name or "", text = more or "" }
    self.returns[#self.returns + 1] = self.last
  end
  if word == "class" or word == "field" then self.text = "" end
end

-- Handles a function's line: "function owner.called(list)". If a declaration has several lines, the
-- parameter list must be on the first one.
function File:declares(owner, separator, called, list)
  local class = self.bound[owner]
  if not class or called:find "^__" then return end -- a private table of the file, or an operator
  local written, names = {}, {}
  for word in list:gmatch "[^%s,]+" do written[#written + 1] = word end
  for i, each in ipairs(self.params) do names[i] = each.name end
  written, names = table.concat(written, ", "), table.concat(names, ", ")
  self.check(written == names, self.place, called, "(", list, ") describes (", names, ")")
  self.check(self.text ~= "" or called == "close", self.place, called,
    " is not described in words")
  local at = self.text:find "Errors: "
  if not class.functions[called] then table.insert(class.order, called) end
  class.functions[called] = { name = called, class = class.name, params = self.params,
    returns = self.returns, method = separator == ":", place = self.place, line = self.number,
    source = "=moonring/" .. self.module:sub(10):gsub("%.", "/"), text = self.text,
    errors = at and self.text:sub(at + 8) or "" }
end

function File:comment(line)
  local word, rest = line:match "^%-%-%-@(%a+) ?(.*)$"
  if word then return self:tag(word, rest) end
  local value = line:match "^%-%-%-| *(.*)$"
  if value and self.alias then return table.insert(self.alias, value) end
  local indented = line:match "^%-%-%-  +(%S.*)$"
  if indented and self.last then
    self.last.text = self.last.text .. " " .. indented -- continuation of a tag's text
    return
  end
  local text = line:match "^%-%-%- ?(.*)$"
  if text then self.text = joined(self.text, text) end
end

-- Collects the comment at the top of a file. It describes the class of the returned module, if the
-- class has no comment of its own.
function File:opening(line)
  local text = line:match "^%-%-%-? ?(.*)$"
  if text and not line:find "^%-%-%-@" then
    self.head = joined(self.head, text)
  else
    self.opened = true
  end
end

function File:line(line)
  if self.quoted then -- within [[ and ]]
    self.quoted = not line:find "^%]%]"
    return
  end
  self.quoted = line:find "%[%[$" ~= nil
  if not self.opened then self:opening(line) end
  if line:find "^%-%-%-" then return self:comment(line) end
  if line:find "^%-%-" then return end
  local variable = line:match "^local (%a[%w_]*) = {}"
  if variable and self.class and self.tagged and (self.partial or not self.class.bound) then
    self.bound[variable], self.class.bound, self.partial = self.class, true, false
  end
  local owner, separator, called, list = line:match "^function ([%w_]+)([.:])([%w_]+)%((.-)%)"
  if owner then self:declares(owner, separator, called, list) end
  local returned = line:match "^return (%a[%w_]*)$"
  if returned and self.bound[returned] then
    local class = self.bound[returned]
    self.modules[self.module] = class.name
    if class.text == "" then class.text = self.head end
  end
  if line:match "^return function" or line:match "^return {" then self.modules[self.module] = "" end
  self.params, self.returns, self.text, self.last, self.alias = {}, {}, "", nil, nil
  self.tagged = false
end

--- Parses a file into the classes, modules and aliases of `into`.
---@param path string
---@param module? string the module's name for require; absent: from the file's @meta line
---@param into moonring.Annotations
---@param check fun(holds: any, ...: string) as in moonring.annotations.read
function annotated_file.parse(path, module, into, check)
  local file = setmetatable({ bound = {}, params = {}, returns = {}, text = "", head = "",
    tagged = false, module = module or "", check = check, classes = into.classes,
    modules = into.modules, aliases = into.aliases }, File)
  file.number = 0
  local short = path:match "[^/]*/[^/]*$"
  for line in (system.read(path) .. "\n"):gmatch "([^\n]*)\n" do
    file.number = file.number + 1
    file.place = ("%s:%d: "):format(short, file.number)
    if not file.quoted then file.module = line:match "^%-%-%-@meta (%S+)" or file.module end
    file:line(line)
  end
  local types_alone = file.class and not next(file.bound)
  if types_alone then into.modules[file.module] = nil end
  check(into.modules[file.module] or types_alone, path,
    ": expected a class, and a module that is returned")
end

return annotated_file
