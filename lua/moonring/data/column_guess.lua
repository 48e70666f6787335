--- Guesses from the columns of rows how to read them: an entry of dataset_info.json without a file.
-- Lists of messages (from and value, or role and content) have priority, then a prompt and an
-- answer under their usual names. Stage pt reads texts, dpo and rm pairs of answers, kto an answer
-- with a label.
local system = require "moonring.native.system"

---@class moonring.column_guess
local column_guess = {}

-- Usual names of columns; the first that exists is taken.
local NAMES = {
  messages = { "messages", "conversations", "conversation" },
  text = { "text", "content" },
  prompt = { "instruction", "prompt", "question", "query", "input" },
  response = { "output", "response", "completion", "answer" },
  kto_tag = { "kto_tag", "label" },
}
local ORDER = { "messages", "prompt", "query", "response", "chosen", "rejected", "kto_tag",
  "system", "history", "tools" }

-- The kind of a value: "text", "bool", "messages" (a list), "message", or "other".
local function kind_of(value)
  if type(value) == "string" then return "text" end
  if type(value) == "boolean" then return "bool" end
  if type(value) ~= "table" then return "other" end
  local function is_message(each)
    return type(each) == "table" and (type(each.from) == "string" and each.value ~= nil
      or type(each.role) == "string")
  end
  return is_message(value) and "message" or is_message(value[1]) and "messages" or "other"
end

--- The kinds of the columns that some row has, by name.
---@param rows table<string, any>[]
---@return table<string, string> kinds "text", "bool", "messages", "message" or "other"
function column_guess.kinds(rows)
  local kinds = {}
  for _, row in ipairs(rows) do
    for name, value in pairs(row) do
      if value ~= system.null and not kinds[name] then kinds[name] = kind_of(value) end
    end
  end
  return kinds
end

local function first(kinds, names, kind)
  for _, name in ipairs(names) do
    if kinds[name] == kind then return name end
  end
end

-- The tags of lists of messages, from the roles that occur in rows.
local function tags_of(rows, column)
  local seen, role_tag = {}, "from"
  for _, row in ipairs(rows) do
    for _, message in ipairs(type(row[column]) == "table" and row[column] or {}) do
      if type(message) == "table" and message.role then role_tag = "role" end
      local role = type(message) == "table" and (message.role or message.from)
      if type(role) == "string" then seen[role] = true end
    end
  end
  local function tag(...)
    for _, word in ipairs { ... } do
      if seen[word] then return word end
    end
    return (...)
  end
  local of_openai = role_tag == "role"
  return { role_tag = role_tag, content_tag = of_openai and "content" or "value",
    system_tag = "system", user_tag = of_openai and tag("user", "human") or tag("human", "user"),
    assistant_tag = of_openai and tag("assistant", "gpt", "model") or tag("gpt", "assistant",
      "model", "bot"),
    observation_tag = of_openai and tag("tool", "observation") or tag("observation", "tool"),
    function_tag = tag("function_call", "function") }
end

-- Whether a row has consecutive tool results, which the format openai joins. Otherwise
-- sharegpt reads the same messages, without LLaMA-Factory's system texts of the format openai.
local function joins_results(rows, column, tags)
  for _, row in ipairs(rows) do
    local before
    for _, message in ipairs(type(row[column]) == "table" and row[column] or {}) do
      local role = type(message) == "table" and message[tags.role_tag]
      if role == tags.observation_tag and before == role then return true end
      before = role
    end
  end
  return false
end

-- The columns of pairs and of marked answers, added to `columns`. Returns why the rows lack them.
local function add_answers(stage, kinds, columns)
  if stage == "kto" then
    columns.kto_tag = first(kinds, NAMES.kto_tag, "bool")
    return not columns.kto_tag and "kto_tag or label (true or false)" or nil
  elseif stage == "dpo" then
    local wanted = columns.messages and "message" or "text"
    if kinds.chosen ~= wanted or kinds.rejected ~= wanted then
      return columns.messages and "chosen and rejected, each one message"
        or "chosen and rejected, each a text"
    end
    columns.chosen, columns.rejected = "chosen", "rejected"
  end
end

local function of_messages(rows, kinds, stage)
  local name = first(kinds, NAMES.messages, "messages")
  if not name then return nil end
  local columns = { messages = name }
  local lacks = add_answers(stage, kinds, columns)
  if lacks then return nil, lacks end
  for _, more in ipairs { "system", "tools" } do columns[more] = kinds[more] and more end
  local tags = tags_of(rows, name)
  return { formatting = joins_results(rows, name, tags) and "openai" or "sharegpt",
    columns = columns, tags = tags, ranking = columns.chosen ~= nil }
end

local function of_prompts(kinds, stage)
  local columns = { prompt = first(kinds, NAMES.prompt, "text"),
    response = first(kinds, NAMES.response, "text") }
  if not columns.prompt then
    return nil, "a list of messages, or a prompt (" .. table.concat(NAMES.prompt, ", ") .. ")"
  end
  if columns.prompt ~= "input" and kinds.input == "text" then columns.query = "input" end
  local lacks = add_answers(stage, kinds, columns)
  if columns.chosen then columns.response = nil end
  if not lacks and not columns.response and (stage == "sft" or stage == "kto") then
    lacks = "a list of messages, or an answer (" .. table.concat(NAMES.response, ", ") .. ")"
  end
  if lacks then return nil, lacks end
  for _, more in ipairs { "system", "history", "tools" } do columns[more] = kinds[more] and more end
  return { formatting = "alpaca", columns = columns, ranking = columns.chosen ~= nil }
end

--- The entry with which a stage can read rows. Returns nil and what is expected if there is none.
---@param rows table<string, any>[]
---@param stage string what the stage reads: "pt", "sft", "dpo" (pairs), "kto" or "prompts"
---@return table? entry formatting, columns, and where needed tags and ranking
---@return string? expected
function column_guess.entry(rows, stage)
  local kinds = column_guess.kinds(rows)
  if stage == "pt" then
    local text = first(kinds, NAMES.text, "text")
    if not text then return nil, "a text (" .. table.concat(NAMES.text, ", ") .. ")" end
    return { formatting = "alpaca", columns = { prompt = text } }
  end
  local entry, expected = of_messages(rows, kinds, stage)
  if entry or expected then return entry, expected end
  return of_prompts(kinds, stage)
end

--- An entry for the user to complete: COLUMN stands for a column that is not found by its name.
---@param rows table<string, any>[]
---@param stage string
---@return table
function column_guess.example(rows, stage)
  local kinds = column_guess.kinds(rows)
  local function named(key, kind) return first(kinds, NAMES[key], kind) or "COLUMN" end
  local columns = { prompt = named(stage == "pt" and "text" or "prompt", "text") }
  if stage == "dpo" then
    columns.chosen, columns.rejected = "COLUMN", "COLUMN"
  elseif stage ~= "pt" and stage ~= "prompts" then
    columns.response = named("response", "text")
  end
  if stage == "kto" then columns.kto_tag = named("kto_tag", "bool") end
  return { columns = columns, ranking = stage == "dpo" or nil }
end

--- The names of the columns that an entry uses.
---@param entry table
---@return string "instruction, input, output"
function column_guess.names(entry)
  local names = {}
  for _, key in ipairs(ORDER) do names[#names + 1] = entry.columns[key] end
  return table.concat(names, ", ")
end

return column_guess
