--- Reads the fields of a request of OpenAI's API by a table with a row for each field. The checks,
-- the error messages and docs/completions.md come from the same rows. A row:
--
--   { name, type, default, meaning, least = , most = , above = , only = , refused = , idle = }
--
--   type      "text", "integer", "number", "boolean", "object", "texts" (a text or a list), "ids"
--             (a list of token ids), "any" (checked by the handler)
--   default   value if the field is absent or null; REQUIRED: it must be there
--   least, most, above   bounds of a number; `most` of a list: how many elements
--   only      list of the accepted values
--   refused   what the message adds about other values
--   idle      why any value has no effect
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.openai.request_fields
---@field REQUIRED table default of a field that must be there
local request_fields = {}

request_fields.REQUIRED = {}

---@class moonring.serve.openai.FieldRow
---@field [1] string name
---@field [2] string type
---@field [3] any default
---@field [4] string meaning
---@field least? number
---@field most? number
---@field above? number
---@field only? any[]
---@field refused? string
---@field idle? string

local LARGEST = 2 ^ 53 -- whole numbers beyond it are not exact in JSON

local function shown(value)
  if type(value) == "string" then
    return #value <= 60 and "'" .. value .. "'" or "a text of " .. #value .. " bytes"
  end
  if value == system.null then return "null" end
  return type(value) == "table" and (value[1] ~= nil and "a list" or "an object") or tostring(value)
end

local WORDS = { text = "a text", integer = "a whole number", number = "a number",
  boolean = "true or false", object = "an object", texts = "a text or a list of texts",
  ids = "a list of token ids" }

local function is_whole(value)
  return type(value) == "number" and value % 1 == 0 and math.abs(value) <= LARGEST
end

--- Whether a value is a list all of whose elements fulfil `fits`.
---@param value any
---@param fits fun(element: any): boolean
---@return boolean
function request_fields.is_list(value, fits)
  if type(value) ~= "table" then return false end
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  if count ~= #value then return false end
  for _, each in ipairs(value) do
    if not fits(each) then return false end
  end
  return true
end

local function is_text(value) return type(value) == "string" end

local FITS = {
  text = is_text,
  integer = is_whole,
  number = function(value) return type(value) == "number" and value == value end,
  boolean = function(value) return type(value) == "boolean" end,
  object = function(value) return type(value) == "table" and value[1] == nil end,
  texts = function(value) return is_text(value) or request_fields.is_list(value, is_text) end,
  ids = function(value) return request_fields.is_list(value, is_whole) end,
  any = function() return true end,
}

--- The bounds of a row, to follow its type: " from 0 to 20"; nil: it has none.
---@param row moonring.serve.openai.FieldRow
---@return string?
function request_fields.bounds(row)
  if row[2] == "texts" or row[2] == "ids" then
    return row.most and ", at most " .. row.most or nil
  end
  if row.above then
    return " above " .. row.above .. (row.most and " and at most " .. row.most or "")
  end
  if row.least and row.most then return " from " .. row.least .. " to " .. row.most end
  return row.least and " at least " .. row.least or nil
end

local function within(row, value)
  if row[2] == "texts" or row[2] == "ids" then
    return not row.most or type(value) ~= "table" or #value <= row.most
  end
  return not (row.least and value < row.least or row.above and value <= row.above
    or row.most and value > row.most)
end

-- Whether two values of JSON are equal.
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  return system.json_encode(a) == system.json_encode(b)
end

local function check_only(row, value)
  for _, each in ipairs(row.only) do
    if same(value, each) then return end
  end
  local list = {}
  for i, each in ipairs(row.only) do list[i] = system.json_encode(each) end
  errors.raise("UNIMPLEMENTED", row[1], ": ", shown(value), " is not supported",
    row.refused and ": " .. row.refused or "", "; leave it out",
    #list > 0 and " or give " .. table.concat(list, ", ") or "")
end

local function check(row, value)
  if not FITS[row[2]](value) then
    errors.fail(row[1], ": expected ", WORDS[row[2]], ", got ", shown(value))
  end
  if row.only then return check_only(row, value) end
  if not within(row, value) then
    errors.fail(row[1], ": expected ", WORDS[row[2]], request_fields.bounds(row), ", got ",
      type(value) == "table" and #value or shown(value))
  end
end

-- Refuses the first unknown field, in the order of names.
local function check_names(request, rows)
  local known, names, unknown = {}, {}, {}
  for i, row in ipairs(rows) do known[row[1]], names[i] = true, row[1] end
  for name, value in pairs(request) do
    if not known[name] and value ~= system.null then unknown[#unknown + 1] = tostring(name) end
  end
  if #unknown == 0 then return end
  table.sort(unknown)
  errors.fail(unknown[1], ": no such field", system.did_you_mean(unknown[1], names), "; fields: ",
    table.concat(names, ", "))
end

--- Reads a request. Errors: INVALID_ARGUMENT and UNIMPLEMENTED; their messages begin with the
--- field's name.
---@param request any the decoded JSON of its body
---@param rows moonring.serve.openai.FieldRow[]
---@return table<string, any> values by name, with defaults
function request_fields.read(request, rows)
  if type(request) ~= "table" or request[1] ~= nil then
    errors.fail("body: expected an object, got ", shown(request))
  end
  check_names(request, rows)
  local values = {}
  for _, row in ipairs(rows) do
    local name, value = row[1], request[row[1]]
    if value == nil or value == system.null then
      if row[3] == request_fields.REQUIRED then
        errors.fail(name, ": required: ", row[4])
      end
      value = row[3]
    else
      check(row, value)
    end
    if value ~= system.null then values[name] = value end
  end
  return values
end

--- The name of the field that a message of `read` is about; nil: of none.
---@param message string
---@param rows moonring.serve.openai.FieldRow[]
---@return string?
function request_fields.of_message(message, rows)
  local name = message:match "^([%w_]+)[:%[%. ]"
  for _, row in ipairs(rows) do
    if row[1] == name then return name end
  end
end

return request_fields
