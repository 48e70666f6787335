--- Reads and checks a request to the chat of `moonring watch`.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.chat_request
local chat_request = {}

--- A request of a browser.
---@class moonring.ChatAsked
---@field run string a name in the list of runs
---@field checkpoint string "checkpoint-120" or "final"
---@field texts string[] user and model in turn, the user's first and last
---@field system? string
---@field sampling moonring.GenerateOptions

-- The options of sampling: default, least, most, whether it is a whole number. The defaults are
-- those of the keys of `moonring chat`, which takes the most probable token too.
local NUMBERS = {
  temperature = { 0, 0, 100 },
  top_p = { 0.7, 1e-6, 1 },
  top_k = { 50, 0, 1e9, true },
  repetition_penalty = { 1, 1e-3, 1e3 },
  max_new_tokens = { 1024, 1, 1e6, true },
  seed = { 42, 0, 2 ^ 32 - 1, true },
}
local TEXTS = { "run", "checkpoint" }

local function check_names(asked)
  local known = { "run", "checkpoint", "messages", "system" }
  for name in pairs(NUMBERS) do known[#known + 1] = name end
  table.sort(known)
  local places = {}
  for _, name in ipairs(known) do places[name] = true end
  for name in pairs(asked) do
    if not places[name] then
      errors.fail("unknown field '", tostring(name), "'",
        system.did_you_mean(tostring(name), known), "; fields: ", table.concat(known, ", "))
    end
  end
end

local function number_of(asked, name)
  local default, least, most, is_whole = unpack(NUMBERS[name])
  local value = asked[name]
  if value == nil then return default end
  local is_right = type(value) == "number" and value >= least and value <= most
    and (not is_whole or value == math.floor(value))
  if not is_right then
    errors.fail(name, ": expected ", is_whole and "a whole number" or "a number", " from ", least,
      " to ", most, ", got ", system.json_encode(value))
  end
  return value
end

-- The texts of the messages, which must be of user and assistant in turn.
local function texts_of(messages)
  if type(messages) ~= "table" or #messages % 2 == 0 then
    errors.fail("messages: expected a list of messages of user and assistant in turn, the user's ",
      "first and last")
  end
  local texts = {}
  for i, each in ipairs(messages) do
    local role = i % 2 == 1 and "user" or "assistant"
    if type(each) ~= "table" or each.role ~= role or type(each.content) ~= "string" then
      errors.fail("messages[", i - 1, "]: expected {\"role\": \"", role, "\", \"content\": TEXT}")
    end
    texts[i] = each.content
  end
  if not texts[#texts]:find "%S" then errors.fail "messages: the last one is empty" end
  return texts
end

-- The options of the sampler. At temperature 0 the others than the penalty have no effect.
local function sampling_of(asked)
  local options = {}
  for name in pairs(NUMBERS) do options[name] = number_of(asked, name) end
  if options.temperature == 0 then options.top_k, options.top_p = 0, 1 end
  return options
end

--- Reads a request. Errors: INVALID_ARGUMENT, with a sentence.
---@param body string JSON
---@return moonring.ChatAsked
function chat_request.read(body)
  local asked = system.json_decode(body, "request")
  if type(asked) ~= "table" or asked[1] ~= nil then
    errors.fail "expected a JSON object with run, checkpoint and messages"
  end
  check_names(asked)
  for _, name in ipairs(TEXTS) do
    if type(asked[name]) ~= "string" then errors.fail(name, ": expected a name") end
  end
  local system_text = asked.system
  if system_text ~= nil and type(system_text) ~= "string" then
    errors.fail "system: expected a text"
  end
  return { run = asked.run, checkpoint = asked.checkpoint, texts = texts_of(asked.messages),
    system = system_text, sampling = sampling_of(asked) }
end

--- The default of each option, for the page.
---@return table<string, number>
function chat_request.defaults()
  local values = {}
  for name, each in pairs(NUMBERS) do values[name] = each[1] end
  return values
end

return chat_request
