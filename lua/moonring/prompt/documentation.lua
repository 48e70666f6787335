--- Finds the annotations of functions, modules and objects of the live API.
local annotations = require "moonring.prompt.annotations"
local native = require "moonring.native.prompt"
local operators = require "moonring.native.operators"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.prompt_documentation
---@field KEYWORDS string[] Lua's keywords
local documentation = {}

documentation.KEYWORDS = { "and", "break", "do", "else", "elseif", "end", "false", "for",
  "function", "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true",
  "until", "while" }

-- The annotations, and an index of them by live values. They are read at first use, in about 0.1 s.
local known

local function note(functions, live, class)
  for name, each in pairs(class.functions) do
    local fn = rawget(live, name)
    if type(fn) == "function" then functions[fn] = functions[fn] or each end
  end
end

local function read()
  local rooms = system.module_path("init"):match "^(.*)/init%.lua$"
  local said = annotations.read(rooms:match "^(.*)/moonring$" .. "/types", rooms)
  local functions, tables, places = {}, {}, {}
  for module, name in pairs(said.modules) do
    local live, class = package.loaded[module], said.classes[name]
    if type(live) == "table" and class then
      tables[live] = class
      note(functions, live, class)
    end
  end
  for name, class in pairs(said.classes) do
    local bound = name:match "^moonring%.(%u%w*)$"
    if bound then note(functions, native.methods(bound), class) end
    for _, each in pairs(class.functions) do
      places[each.source .. ":" .. each.line] = each
    end
  end
  return { said = said, functions = functions, tables = tables, places = places }
end

local function index()
  known = known or read()
  return known
end

--- The annotations of all files.
---@return moonring.Annotations
function documentation.said() return index().said end

-- Makes an annotation for an operator of LibTorch that is not a method of tensors.
local function free_operator(name)
  local texts = { name .. "." }
  for i, schema in ipairs(operators.schemas(name)) do texts[i + 1] = "    " .. schema end
  return { name = name, class = "moonring.ops", method = false, params = {}, returns = {},
    text = table.concat(texts, "\n"), errors = "", place = "", line = 0, source = "" }
end

-- The annotation of a function of `moonring.ops`, found by comparing it with all operators.
local function of_operator(fn)
  local probe, methods = tensor.tensor { 0 }, index().said.classes["moonring.Tensor"].functions
  local function is(owner, name)
    local found, operator = pcall(function() return owner[name] end) -- may fail under --sandbox
    return found and operator == fn
  end
  for _, name in ipairs(operators.names()) do
    if is(operators.ops, name) then return free_operator(name) end
    if methods[name] and is(probe, name) then return methods[name] end
  end
end

--- Whether an annotation describes an operator of LibTorch. Such annotations have schemas instead
--- of parameters.
---@param each moonring.AnnotatedFunction
---@return boolean
function documentation.is_operator(each)
  return each.class == "moonring.TensorOperators" or each.class == "moonring.ops"
end

--- The annotation of a live function; nil if it has none.
---@param fn function
---@return moonring.AnnotatedFunction?
function documentation.of_function(fn)
  local found = index().functions[fn]
  if found then return found end
  local source, line = native.place(fn)
  if source ~= "" then return index().places[source .. ":" .. line] end
  return of_operator(fn)
end

--- The names of the operators that a value has as fields: the table `moonring.ops`, or a tensor.
---@param value any
---@return string[]
function documentation.operators_of(value)
  if value == operators.ops then return operators.names() end
  return native.class_of(value) == "Tensor"
    and index().said.classes["moonring.TensorOperators"].order or {}
end

-- The class of an object that is implemented in Lua: that of the first documented method in its
-- metatable.
local function class_by_methods(methods)
  for _, fn in next, methods do
    local each = type(fn) == "function" and documentation.of_function(fn)
    if each and each.method then return index().said.classes[each.class] end
  end
end

--- The annotation of a module, or of an object's class; nil for other values.
---@param value any
---@return moonring.AnnotatedClass?
function documentation.of_value(value)
  local bound = native.class_of(value)
  if bound ~= "" then return index().said.classes["moonring." .. bound] end
  if type(value) ~= "table" then return nil end
  if index().tables[value] then return index().tables[value] end
  if rawget(value, "scope") and rawget(value, "no_grad") then
    return index().said.classes.moonring -- the table `moonring` of a confined script
  end
  local metatable = getmetatable(value)
  local methods = type(metatable) == "table" and rawget(metatable, "__index")
  return type(methods) == "table" and class_by_methods(methods) or nil
end

--- Looks up a name in the annotations, such as "moonring.comm.mesh", "Tensor" or "Tensor:sum".
---@param name string
---@return moonring.AnnotatedFunction? fn
---@return moonring.AnnotatedClass? class
function documentation.named(name)
  local classes = index().said.classes
  for _, full in ipairs { name, "moonring." .. name } do
    if classes[full] then return nil, classes[full] end
    local class, called = full:match "^(.*)[.:]([%w_]+)$"
    class = class and (classes[class] or classes["moonring.native." .. (class:match "[^.]*$")])
    if class and class.functions[called] then return class.functions[called] end
  end
end

--- All names that `named` accepts, for suggestions.
---@return string[]
function documentation.names()
  local names = {}
  for name, class in pairs(index().said.classes) do
    names[#names + 1] = name:gsub("^moonring%.", "")
    for called, each in pairs(class.functions) do
      names[#names + 1] = name:gsub("^moonring%.", "") .. (each.method and ":" or ".") .. called
    end
  end
  table.sort(names)
  return names
end

local function parameters(each)
  local words = {}
  for i, param in ipairs(each.params) do
    words[i] = param.name .. (param.optional and "?" or "") .. ": " .. param.types
  end
  return table.concat(words, ", ")
end

--- A function's signature without its owner: "mesh(options: moonring.MeshOptions): moonring.Mesh".
---@param each moonring.AnnotatedFunction
---@return string
function documentation.short(each)
  if documentation.is_operator(each) then return operators.schemas(each.name)[1] end
  local results = {}
  for i, result in ipairs(each.returns) do results[i] = result.types end
  return ("%s(%s)%s"):format(each.name, parameters(each),
    #results > 0 and ": " .. table.concat(results, ", ") or "")
end

--- A function's signature with its owner: "moonring.comm.mesh(...)", "moonring.Tensor:sum()". nil
--- for an undocumented function.
---@param fn function | moonring.AnnotatedFunction
---@return string?
function documentation.signature(fn)
  local each = type(fn) == "function" and documentation.of_function(fn) or fn
  if type(each) ~= "table" then return nil end
  return each.class:gsub("^moonring%.native%.", "moonring."):gsub("TensorOperators$", "Tensor")
    .. (each.method and ":" or ".") .. documentation.short(each)
end

return documentation
