--- What Tab offers at the prompt: from the live API, with types where annotations know them.
local documentation = require "moonring.prompt.documentation"
local native = require "moonring.native.prompt"
local schemas = require("moonring.native.operators").schemas

---@class moonring.prompt_offers
local offers = {}

-- What an object has by its metatable, as a table; nil where that is a function, or nothing.
local function inherited(value)
  local bound = native.class_of(value)
  if bound ~= "" then return native.methods(bound) end
  if type(value) == "string" then return string end
  local metatable = getmetatable(value)
  local index = type(metatable) == "table" and rawget(metatable, "__index")
  return type(index) == "table" and index or nil
end

-- A field of a value, as `value.name` gives it where no function of a metatable has a say.
local function field(value, name)
  for _ = 1, 8 do
    if type(value) == "table" and rawget(value, name) ~= nil then return rawget(value, name) end
    value = inherited(value)
    if value == nil then return nil end
  end
end

-- Names and what they stand for.
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

-- What is before the last "." or ":", which of them, and the word behind it. Nil where it is more
-- than names: it would have to be run.
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

-- Whether the cursor is in a string.
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

-- What the names of `owner` lead to from the globals; false where one of them leads nowhere.
local function resolved(owner, globals)
  local value = globals
  for name in owner:gmatch "[^.:]+" do
    value = field(value, name)
    if value == nil then return false end
  end
  return value
end

--- What may stand for the word before the cursor.
---@param line string
---@param cursor integer letters before it
---@param globals table
---@return integer begin where the word begins, from 0
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
  -- The rest of the only word is put in, and nothing is listed: annotations need not be read.
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
