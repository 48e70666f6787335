--- Reads the words of a command as names and values. Accepted forms: key=value, --key=value and, as
-- in the argument parser of Hugging Face and LLaMA-Factory, --key value. A bool without a value is
-- true, --no_key makes it false, and a list takes several words. A "-" in a name stands for "_".

---@class moonring.command_words
local command_words = {}

---@class moonring.CommandWord
---@field name? string the key; absent if the word has none of the accepted forms
---@field inner string the nested path, such as ".a.b" in key.a.b=value; else ""
---@field text? string the value; absent if the key needs one and has none
---@field lead string what precedes the value, as given: "key=" or "--key "; "" if no value is given
---@field shown string all words, as given
---@field count integer number of these words

-- The words for true and false in YAML 1.1, Python and HfArgumentParser's string_to_bool.
local TRUTH = {}
for _, word in ipairs { "true", "yes", "on", "y", "t", "1" } do TRUTH[word] = true end
for _, word in ipairs { "false", "no", "off", "n", "f", "0" } do TRUTH[word] = false end

--- Parses a word for true or false; nil for any other word.
---@param text string
---@return boolean?
function command_words.truth(text) return TRUTH[text:lower():match "^%s*(.-)%s*$"] end

-- Splits "--key.inner=value" into "--", "key", ".inner" and "=value".
local function split(word) return word:match "^(%-?%-?)(%a[%w_-]*)(%.?[%w_.]*)(.*)$" end

local function known(name, kind_of)
  local own = name:gsub("%-", "_")
  local kind = kind_of(own)
  if kind then return own, kind end
  return name, nil
end

-- Whether a word starts a new option (--key, --key=value), and is not the value of the one before.
-- Numbers (-1) and texts with a space are values.
local function is_option(word)
  local dashes, _, _, rest = split(word)
  return dashes and dashes ~= "" and (rest == "" or rest:sub(1, 1) == "=")
end

local function is_pair(word, kind_of)
  local _, name, _, rest = split(word)
  return name ~= nil and rest:sub(1, 1) == "=" and select(2, known(name, kind_of)) ~= nil
end

-- The number of words from words[i] on that are values of a key of this kind.
local function values_from(words, i, kind, kind_of)
  local count = 0
  while words[i + count] do
    local word = words[i + count]
    if is_option(word) then break end
    if (kind == nil or kind == "bool" or count > 0) and is_pair(word, kind_of) then break end
    count = count + 1
    if kind ~= "list" then break end
  end
  return count
end

-- Reads "--key" and the values after it. Returns the pair and the number of values.
local function option(words, i, name, inner, kind_of)
  local own, kind = known(name, kind_of)
  local off = not kind and own:match "^no[_-](.+)$"
  local base, base_kind = known(off or own, kind_of)
  if off and base_kind == "bool" then
    return { name = base, inner = inner, text = "false", lead = "", shown = words[i] }, 0
  end
  local count = values_from(words, i + 1, inner == "" and kind or kind and "string", kind_of)
  local text = table.concat(words, ",", i + 1, i + count)
  if count == 0 then text = (kind == "bool" or not kind) and "true" or nil end
  return { name = own, inner = inner, text = text, lead = count > 0 and words[i] .. " " or "",
    shown = table.concat(words, " ", i, i + count) }, count
end

--- Reads the words of a command.
---@param words string[]
---@param kind_of fun(name: string): string? the type of a key: "bool", "list" or any other; nil if
--- the key is unknown
---@return moonring.CommandWord[]
function command_words.read(words, kind_of)
  local read, i = {}, 1
  while i <= #words do
    local dashes, name, inner, rest = split(words[i])
    local pair, count = { shown = words[i], lead = "", inner = "" }, 0
    if name and rest:sub(1, 1) == "=" then
      pair.name, pair.inner, pair.text = known(name, kind_of), inner, rest:sub(2)
      pair.lead = words[i]:sub(1, #words[i] - #rest + 1)
    elseif name and dashes ~= "" and rest == "" then
      pair, count = option(words, i, name, inner, kind_of)
    end
    pair.count = 1 + count
    read[#read + 1], i = pair, i + pair.count
  end
  return read
end

return command_words
