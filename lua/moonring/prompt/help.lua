--- Makes the text of help(x) at the prompt, from annotations.
local documentation = require "moonring.prompt.documentation"
local system = require "moonring.native.system"

---@class moonring.prompt_help
local help = {}

local WIDTH = 92

local INTRODUCTION = [[
moonring is the API; help(x) describes a function, a module or an object: help(moonring.comm.mesh),
help(moonring.comm), help(model). Also by name: help "Tensor", help "Tensor:sum".

  Tab     completes names, and shows their types
  _       the last value
  Ctrl-C  interrupts what is running, or discards the input
  Ctrl-D  leaves

An incomplete line is continued on the next one. A `local` exists only within its line.
]]

-- Wraps a text at WIDTH columns with an indent. Indented and empty lines stay as they are.
local function wrapped(text, indent)
  local lines, line = {}, ""
  local function flush()
    if line ~= "" then lines[#lines + 1] = indent .. line end
    line = ""
  end
  for each in (text .. "\n"):gmatch "([^\n]*)\n" do
    if each == "" or each:find "^%s" then
      flush()
      lines[#lines + 1] = each == "" and "" or indent .. each
    else
      for word in each:gmatch "%S+" do
        if line ~= "" and #indent + #line + 1 + #word > WIDTH then flush() end
        line = line == "" and word or line .. " " .. word
      end
    end
  end
  flush()
  return table.concat(lines, "\n")
end

-- Formats lines with name, type and description of each item.
local function rows(list, indent)
  local lines = {}
  for _, each in ipairs(list) do
    local head = ("%s%s%s: %s"):format(indent, each.name, each.optional and "?" or "", each.types)
    local one = head .. "  " .. each.text
    if each.text == "" or (#one <= WIDTH and not one:find "\n") then
      lines[#lines + 1] = (one:gsub("%s+$", ""))
    else
      lines[#lines + 1] = head .. "\n" .. wrapped(each.text, indent .. "    ")
    end
  end
  return table.concat(lines, "\n")
end

local function fields_of(class)
  local list = {}
  for i, name in ipairs(class.field_order) do list[i] = class.fields[name] end
  return list
end

-- Descriptions of the fields of parameters that are option tables.
local function options_of(each)
  local parts = {}
  for _, param in ipairs(each.params) do
    local class = documentation.said().classes[param.types]
    if class and not class.bound and #class.field_order > 0 then
      parts[#parts + 1] = ("%s:\n%s"):format(param.types, rows(fields_of(class), "  "))
    end
  end
  return parts
end

local function function_text(each)
  if documentation.is_operator(each) then -- only the list of schemas
    return documentation.signature(each):match "^[^(]*" .. each.text:gsub("^[^\n]*", "", 1)
  end
  local parts = { documentation.signature(each), wrapped(each.text, "  ") }
  if #each.params > 0 then parts[#parts + 1] = "Takes\n" .. rows(each.params, "  ") end
  local results = {}
  for i, result in ipairs(each.returns) do
    results[i] = { name = result.name ~= "" and result.name or "value", types = result.types,
      text = result.text }
  end
  if #results > 0 then parts[#parts + 1] = "Returns\n" .. rows(results, "  ") end
  for _, part in ipairs(options_of(each)) do parts[#parts + 1] = part end
  return table.concat(parts, "\n\n")
end

local function first_sentence(text)
  text = text:gsub("\n", " ")
  return text:match "^(.-%.)%s" or text
end

local function class_text(class)
  local parts = { (class.name:gsub("^moonring%.native%.", "moonring.")) }
  if class.text ~= "" then parts[2] = wrapped(class.text, "  ") end
  local fields = fields_of(class)
  if #fields > 0 then parts[#parts + 1] = "Fields\n" .. rows(fields, "  ") end
  local lines, operators = {}, 0
  for _, name in ipairs(class.order) do
    local each = class.functions[name]
    if documentation.is_operator(each) then
      operators = operators + 1
    else
      lines[#lines + 1] = "  " .. (each.method and ":" or ".") .. documentation.short(each)
      if each.text ~= "" then lines[#lines + 1] = wrapped(first_sentence(each.text), "      ") end
    end
  end
  if operators > 0 then
    lines[#lines + 1] = ("  and %d operators of LibTorch: Tab lists them, help 'Tensor:sum' "
      .. "describes one"):format(operators)
  end
  if #lines > 0 then parts[#parts + 1] = "Functions\n" .. table.concat(lines, "\n") end
  return table.concat(parts, "\n\n")
end

--- Help for a function, a module, an object or a name. Without an argument it explains the prompt.
---@param ... any at most one value
---@return string
function help.text(...)
  if select("#", ...) == 0 then return (INTRODUCTION:gsub("\n$", "")) end
  local x = ...
  if type(x) == "function" then
    local each = documentation.of_function(x)
    return each and function_text(each) or tostring(x) .. ": no documentation"
  end
  local class = documentation.of_value(x)
  if class then return class_text(class) end
  if type(x) ~= "string" then return "a " .. type(x) .. ": no documentation" end
  local each, named = documentation.named(x)
  if each then return function_text(each) end
  if named then return class_text(named) end
  return "no documentation of '" .. x .. "'" .. system.did_you_mean(x, documentation.names())
end

return help
