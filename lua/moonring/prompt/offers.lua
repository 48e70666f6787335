--- Tab completion at the prompt, from the live API, with types from annotations.
local documentation = require "moonring.prompt.documentation"
local native = require "moonring.native.prompt"
local schemas = require("moonring.native.operators").schemas

---@class moonring.prompt_offers
local offers = {}

-- The table from which a value inherits fields; nil if its __index is a function or absent.
local function inherited(value)
  local bound = native.class_of(value)
  if bound ~= "" then return native.methods(bound) end
  if type(value) == "string" then return string end
  local metatable = getmetatable(value)
  local index = type(metatable) == "table" and rawget(metatable, "__index")
  return type(index) == "table" and index or nil
end

-- The field `value.name`, read without calling functions of metatables.
local function field(value, name)
  for _ = 1, 8 do
    if type(value) == "table" and rawget(value, name) ~= nil then return rawget(value, name) end
    value = inherited(value)
    if value == nil then return nil end
  end
end

-- All fields of a value, including inherited ones.
local function members(value)
  local found = {}
  for _ = 1, 8 do
    if type(value) == "table" then
      for name, member in next, value do
        if type(name) == "string" and found[name] == nil then found[name] = member end
      end
    end
    value = inherited(value)
    if value == nil then break end
  end
  return found
end

-- Splits the text before the cursor into owner, separator ("." or ":") and word. Returns nil if the
-- owner is not a plain path of names: it would have to be evaluated first.
local function split(head)
  local at, path = head:match "()([%a_][%w_.:]*)$"
  if not at then
    if head:find "[.:]$" then return nil end
    return "", "", ""
  end
  if head:sub(at - 1, at - 1):find "[.:\"'%)%]]" then return nil end
  local owner, separator, word = path:match "^(.*)([.:])([%w_]*)$"
  if not owner then return "", "", path end
  return owner, separator, word
end

-- Whether the cursor is inside a string.
local function in_string(head)
  local quote
  for c in head:gsub("\\.", ""):gmatch "[\"']" do
    if not quote then
      quote = c
    elseif c == quote then
      quote = nil
    end
  end
  return quote ~= nil
end

local function shown(name, member, class)
  if type(member) == "function" then
    local each = documentation.of_function(member)
    return each and documentation.short(each) or name .. "(...)"
  end
  local described = class and class.fields[name]
  if described then return name .. ": " .. described.types end
  local bound = native.class_of(member)
  return name .. ": " .. (bound ~= "" and "moonring." .. bound or type(member))
end

-- The value of the path `owner`, looked up in the globals; false if it does not exist.
local function resolved(owner, globals)
  local value = globals
  for name in owner:gmatch "[^.:]+" do
    value = field(value, name)
    if value == nil then return false end
  end
  return value
end

--- Completions of the word before the cursor.
---@param line string
---@param cursor integer number of bytes before the cursor
---@param globals table
---@return integer begin start of the word, from 0
---@return string[] words
---@return string[] lines the words with their types
function offers.of(line, cursor, globals)
  local head = line:sub(1, cursor)
  local owner, separator, word = split(head)
  local value = owner and not in_string(head) and resolved(owner, globals)
  if not value then return cursor, {}, {} end
  local found, operators = members(value), documentation.operators_of(value)
  for _, name in ipairs(operators) do found[name] = found[name] or operators end
  if separator == "" then
    for _, keyword in ipairs(documentation.KEYWORDS) do found[keyword] = documentation end
  end
  local words, lines = {}, {}
  for name, member in pairs(found) do
    local fits = name:sub(1, #word) == word and name:find "^[%a_][%w_]*$"
      and (name:sub(1, 1) ~= "_" or word:sub(1, 1) == "_")
      and (separator ~= ":" or type(member) == "function" or member == operators)
    if fits then words[#words + 1] = name end
  end
  table.sort(words)
  -- A single completion is inserted without a list, so no annotations are needed.
  if #words == 1 and words[1] ~= word then return cursor - #word, words, words end
  local class = separator ~= "" and documentation.of_value(value) or nil
  for i, name in ipairs(words) do
    local member = found[name]
    if member == documentation then
      lines[i] = name -- a keyword
    elseif member == operators then
      lines[i] = schemas(name)[1]
    else
      lines[i] = shown(name, member, class)
    end
  end
  return cursor - #word, words, lines
end

return offers
