--- Generates the annotations of operators, lua/types/operators.lua, from LibTorch's schemas. Names
-- that begin with an underscore are callable but private, and are omitted.
local operators = require "moonring.native.operators"

---@class moonring.operator_types
local operator_types = {}

local HEAD = [[
---@meta moonring.native.operators

--- All operators of LibTorch, by their names without "aten::": `moonring.ops.NAME(...)`, and
--- `x:NAME(...)` if the first argument is a tensor.
---
--- Arguments have the order of the schema; those after `*` are given by name, in a table at the
--- end: `ops.sum(x, 0, { keepdim = true })`. nil means None if the schema has a `?`, otherwise the
--- default. Lua numbers convert to int, float and Scalar, and tables to lists (if sizes are the
--- only argument they may be given one by one: `x:view(2, 3)`). dtypes, devices and the like are
--- strings; a Generator is given by a seed. Operators with several results return several values.
--- An operator whose name ends in `_` modifies its object and returns it; `out = z` writes into z.
--- `repeat` is named `repeat_`, because it is a keyword of Lua.
---@class moonring.operators
---@field ops table<string, function> the operators by name
local operators = {}

--- Names of all operators, including private ones.
---@return string[]
function operators.names() end

--- The schemas of an operator, as LibTorch prints them. Errors: INVALID_ARGUMENT for an unknown
--- name, with the nearest one.
---@param name string
---@return string[]
function operators.schemas(name) end

--- The number of callable names and overloads, and of overloads that are not callable, by the type
--- of value that Lua cannot represent.
---@return { names: integer, overloads: integer, left_out: table<string, integer> }
function operators.count() end

--- Operators as methods of tensors. Made by docs/operator_types.lua from LibTorch's schemas.
---@class moonring.TensorOperators
local TensorOperators = {}
]]

local WIDTH = 100

-- Wraps a schema into comment lines.
local function wrapped(text)
  local lines, line = {}, "---     "
  for word in text:gmatch "%S+" do
    if #line + #word > WIDTH then
      lines[#lines + 1], line = line, "---       "
    end
    line = line .. word .. " "
  end
  lines[#lines + 1] = line
  for i, each in ipairs(lines) do lines[i] = each:gsub("%s+$", "") end
  return table.concat(lines, "\n")
end

-- Methods that are not listed, because tensor.lua describes them.
local SKIPPED = { item = true, to = true, size = true }

--- Whether an operator is public and has a tensor as first argument.
---@param name string
---@param schemas string[]
---@return boolean
function operator_types.is_method(name, schemas)
  return not name:find "^_" and not SKIPPED[name] and schemas[1] ~= nil
    and schemas[1]:find "^[%w_.]+%(Tensor[^%[%]]-[%s]" ~= nil
    and not schemas[1]:find "^[%w_.]+%(Tensor%??%b()?%["
end

--- The text of lua/types/operators.lua.
---@return string
function operator_types.text()
  local parts = { HEAD }
  for _, name in ipairs(operators.names()) do
    local found, schemas = pcall(operators.schemas, name)
    if found and operator_types.is_method(name, schemas) then
      local lines = { "--- " .. name .. "." }
      for _, schema in ipairs(schemas) do
        if not schema:find "!%) %w+%)%s*%->" or #lines == 1 then
          lines[#lines + 1] = wrapped(schema)
        end
      end
      lines[#lines + 1] = "---@param ... any"
      lines[#lines + 1] = "---@return any ..."
      lines[#lines + 1] = ("function TensorOperators:%s(...) end\n"):format(name)
      parts[#parts + 1] = table.concat(lines, "\n")
    end
  end
  parts[#parts + 1] = "return operators\n"
  return table.concat(parts, "\n")
end

--- Lists the public operators, in lines of at most 100 columns: the first schema, "_" if there is
--- an in-place variant, and "+n" if there are n more overloads.
---@return string[]
function operator_types.lines()
  local lines, names = {}, {}
  for _, name in ipairs(operators.names()) do names[name] = true end
  for _, name in ipairs(operators.names()) do
    local twin = name:sub(-1) == "_" and names[name:sub(1, -2)]
    local found, schemas = pcall(operators.schemas, name)
    if found and not twin and not name:find "^_" then
      local marks = names[name .. "_"] and "  _" or ""
      if #schemas > 1 then marks = ("%s  +%d"):format(marks, #schemas - 1) end
      local room = WIDTH - #marks
      local schema = schemas[1]:gsub("^([%w_]+)%.%w+%(", "%1(")
      if #schema > room then schema = schema:sub(1, room - 4) .. " ..." end
      lines[#lines + 1] = schema .. marks
    end
  end
  return lines
end

return operator_types
