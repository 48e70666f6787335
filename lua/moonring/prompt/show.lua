--- Formats values for the prompt: tables have sorted keys, and are limited in depth and length.
local documentation = require "moonring.prompt.documentation"

---@class moonring.prompt_show
local show = {}

local DEEPEST, MOST, LONGEST, WIDTH, SHORT = 4, 40, 2000, 96, 24

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

local function quoted(text)
  local cut = #text > LONGEST and (" ... (%d bytes)"):format(#text) or ""
  return '"' .. text:sub(1, LONGEST):gsub('[%c"\\]', function(c)
    return ESCAPES[c] or ("\\%03d"):format(c:byte())
  end) .. '"' .. cut
end

local KEYWORDS = {}
for _, word in ipairs(documentation.KEYWORDS) do KEYWORDS[word] = true end

local function key_text(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" and not KEYWORDS[key] then return key end
  return "[" .. (type(key) == "string" and quoted(key) or tostring(key)) .. "]"
end

-- Order of keys: numbers by value, then strings alphabetically, then other types.
local function before(a, b)
  local kind, other = type(a), type(b)
  if kind == other and (kind == "number" or kind == "string") then return a < b end
  if kind == "number" or other == "number" then return kind == "number" end
  if kind == "string" or other == "string" then return kind == "string" and other ~= "string" end
  return tostring(a) < tostring(b)
end

-- The sorted keys of a table that are not in its list part, 1 to n.
local function keys_beside(t, n)
  local keys = {}
  for key in next, t do
    if not (type(key) == "number" and key >= 1 and key <= n and key % 1 == 0) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, before)
  return keys
end

local value_text

-- The items of a table as texts: at most MOST items of its list part, and at most MOST other keys.
local function items_of(t, depth, above)
  local items, n = {}, #t
  for i = 1, math.min(n, MOST) do items[i] = value_text(rawget(t, i), depth + 1, above) end
  local keys = keys_beside(t, n)
  for i = 1, math.min(#keys, MOST) do
    items[#items + 1] = key_text(keys[i]) .. " = "
      .. value_text(rawget(t, keys[i]), depth + 1, above)
  end
  local more = math.max(0, n - MOST) + math.max(0, #keys - MOST)
  if more > 0 then items[#items + 1] = ("... (%d more)"):format(more) end
  return items
end

-- Arranges items in lines: each long item on a line of its own, short items together.
local function in_lines(items, indent)
  local lines, line = {}, ""
  for i, item in ipairs(items) do
    local text = i < #items and item .. "," or item
    local fits = #item <= SHORT and #indent + #line + 1 + #text <= WIDTH and not text:find "\n"
    if line ~= "" and fits then
      line = line .. " " .. text
    else
      if line ~= "" then lines[#lines + 1] = line end
      line = text
    end
    if #item > SHORT then lines[#lines + 1], line = line, "" end
  end
  if line ~= "" then lines[#lines + 1] = line end
  return table.concat(lines, "\n" .. indent)
end

local function table_text(t, depth, above)
  if next(t) == nil then return "{}" end
  if above[t] then return "{ ... (itself) }" end
  if depth >= DEEPEST then return "{ ... }" end
  above[t] = true
  local items = items_of(t, depth, above)
  above[t] = nil
  local line = "{ " .. table.concat(items, ", ") .. " }"
  if #line + 2 * depth <= WIDTH and not line:find "\n" then return line end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. in_lines(items, indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

function value_text(value, depth, above)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if kind == "function" then
    local signature = documentation.signature(value)
    return signature and "function " .. signature or tostring(value)
  end
  local metatable = kind == "table" and getmetatable(value)
  if kind ~= "table" or (type(metatable) == "table" and metatable.__tostring) then
    local text = tostring(value)
    return depth == 0 and text or (text:gsub("\n", "\n" .. ("  "):rep(depth)))
  end
  return table_text(value, depth, above)
end

--- Formats a value for the prompt: strings quoted, tables with sorted keys, four levels deep and
--- forty items long, other objects by tostring.
---@param value any
---@return string
function show.text(value) return value_text(value, 0, {}) end

return show
