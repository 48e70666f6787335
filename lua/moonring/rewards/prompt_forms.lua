--- The prompt of a data set's row as a conversation, or as a text, from the row's columns: as the
-- prompts of TRL are, which call these formats conversational and standard.
local column_guess = require "moonring.data.column_guess"
local system = require "moonring.native.system"

---@class moonring.prompt_forms
local prompt_forms = {}

local ROLES = { human = "user", gpt = "assistant", model = "assistant", bot = "assistant",
  observation = "tool", function_call = "assistant" }

-- A message as { role, content }, with its other fields.
local function message_of(given)
  local message = {}
  for key, value in pairs(given) do
    if key ~= "from" and key ~= "value" and value ~= system.null then message[key] = value end
  end
  message.role = message.role or given.from
  message.role = ROLES[message.role] or message.role
  if message.content == nil then message.content = given.value end
  return message
end

-- The column with a list of messages: `prompt`, or else the first in alphabetical order.
local function list_in(columns)
  local found
  for name, kind in pairs(column_guess.kinds { columns }) do
    local is_answer = name == "chosen" or name == "rejected" or name == "completion"
    if kind == "messages" and not is_answer and found ~= "prompt"
      and (name == "prompt" or not found or name < found) then
      found = name
    end
  end
  return found and columns[found]
end

--- The messages of a row's prompt, without the answers at its end; nil if it is not a conversation.
---@param columns? table<string, any>
---@return table[]? messages
function prompt_forms.messages(columns)
  local list = columns and list_in(columns)
  if not list then return nil end
  local messages = {}
  for i, each in ipairs(list) do messages[i] = message_of(each) end
  while messages[1] and messages[#messages].role == "assistant" do messages[#messages] = nil end
  if not messages[1] then return nil end
  if type(columns.system) == "string" and columns.system ~= "" and messages[1].role ~= "system" then
    table.insert(messages, 1, { role = "system", content = columns.system })
  end
  return messages
end

--- The text of a row's prompt without a template's text; nil if the row has no such column.
---@param columns table<string, any>
---@return string?
function prompt_forms.text(columns)
  if type(columns.prompt) == "string" then return columns.prompt end
  if type(columns.instruction) ~= "string" then return nil end
  local input = columns.input
  if type(input) ~= "string" or input == "" then return columns.instruction end
  return columns.instruction .. "\n" .. input
end

return prompt_forms
