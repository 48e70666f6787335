--- Writes docs/completions.md from the table by which requests are checked:
--   moonring docs/completions.lua > docs/completions.md
local field_rows = require "moonring.serve.openai.field_rows"
local request_fields = require "moonring.serve.openai.request_fields"
local system = require "moonring.native.system"

local function json(value)
  if type(value) == "table" and next(value) == nil then return "" end
  return "`" .. system.json_encode(value) .. "`"
end

local function default(row)
  if row[3] == request_fields.REQUIRED then return "required" end
  return row[3] == system.null and "" or row[3] == "" and "" or json(row[3])
end

local function meaning(row)
  local words = { row[4] ~= "" and row[4] or nil }
  local bounds = request_fields.bounds(row)
  if bounds then words[#words + 1] = (bounds:gsub("^,? ", "")) end
  if row.only then
    local list = {}
    for _, each in ipairs(row.only) do
      if json(each) ~= "" then list[#list + 1] = json(each) end
    end
    words[#words + 1] = #list > 0 and "only " .. table.concat(list, ", ") or "refused"
    if row.refused then words[#words + 1] = row.refused end
  end
  if row.idle then words[#words + 1] = "no effect: " .. row.idle end
  return (table.concat(words, "; "):gsub("|", "\\|"))
end

local function print_table(title, rows, skipped)
  print("\n## " .. title .. "\n")
  print "| field | type | default | |"
  print "|---|---|---|---|"
  for _, row in ipairs(rows) do
    if not skipped[row[1]] then
      print(("| `%s` | %s | %s | %s |"):format(row[1], row[2], default(row), meaning(row)))
    end
  end
end

-- Rows that two lists have in common.
local function common(a, b)
  local shared, names = {}, {}
  for _, row in ipairs(b) do names[row] = true end
  local rows = {}
  for _, row in ipairs(a) do
    if names[row] then shared[row[1]], rows[#rows + 1] = true, row end
  end
  return rows, shared
end

local completions, chat = field_rows.completions, field_rows.chat_completions
local both, shared = common(completions, chat)

print [[
# Fields of OpenAI's requests

This page is written by `moonring docs/completions.lua`, from the table by which `moonring serve`
checks requests. [evaluation.md](evaluation.md) says how to use them. A field that is not in a table
is refused, with the nearest name; null counts as absent. Fields that are not OpenAI's are
vLLM's, by the same names.]]
print_table("Completions and chat", both, {})
print_table("POST /v1/completions", completions, shared)
print_table("POST /v1/chat/completions", chat, shared)
print_table("POST /tokenize", field_rows.tokenize, {})
print_table("POST /detokenize", field_rows.detokenize, {})
