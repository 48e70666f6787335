--- Fields of a chat template's table, and checks of them. Example:
--
--     return { like = "qwen", default_system = "You are terse." }
--
--   name             its name; the file's path where absent (messages about a file always use its
--                    path)
--   like             another template (name or path) that provides absent fields
--   class            "plain"; "system_in_user": the system text becomes part of the first user
--                    message; "reasoning": answers begin with a thought
--   prefix           slots at the very beginning
--   system user assistant function_call observation
--                    slots around the system text, and around messages of each role; {{content}} is
--                    replaced by the text, and {{idx}} in the user's by the turn's number
--   tool_format      format of tools and tool calls, by name (data/text/tools)
--   tools            a text with {{content}} for the tools as given, instead of the format's
--   default_system   the system text of conversations without one
--   stop_words       texts that end an answer, in addition to eos
--   replace_eos      the first stop word is the eos
--   efficient_eos    slots do not end answers: an eos separates turns
--   thought_words    begin and end of a thought; empty_thought: an empty one (absent: the two
--                    words)
--   thought_written  begin and end that the model's own template puts around a thought in a
--                    separate field of a message (absent: thought_words for class "reasoning",
--                    otherwise such thoughts are not written), optionally followed by the text
--                    before the answer
--   thought_trim     characters removed from both ends of such a thought and the answer:
--                    "newlines" (default), "spaces", "nothing"
--   tool_call_words  begin and end of a tool call within other text
--   date             the current date, for tool formats that need it ("26 Jul 2024"; absent: today)
--   enable_thinking preserve_thinking   as the keys of the same names
--
-- Slots are a text, or a list of texts, { "bos" }, { "eos" } and { token = "<|user|>" }; each item
-- is tokenized separately.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.template_fields
---@field slots string[] names of the fields with slots
local fields = {}

--- A chat template as a table; its fields are described above.
---@class moonring.TemplateTable
---@field name? string
--- `like`: another template, by name or path, that provides absent fields.
---@field like? string
---@field class? "plain" | "system_in_user" | "reasoning"
---@field prefix? moonring.Slots
---@field system? moonring.Slots
---@field user? moonring.Slots
---@field assistant? moonring.Slots
---@field function_call? moonring.Slots
---@field observation? moonring.Slots
---@field tools? string
---@field tool_format? string
---@field default_system? string
---@field stop_words? string[]
---@field replace_eos? boolean
---@field efficient_eos? boolean
---@field thought_words? string[] two texts
---@field empty_thought? string
---@field thought_written? string[] two or three texts
---@field thought_trim? "newlines" | "spaces" | "nothing"
---@field tool_call_words? string[] two texts
---@field date? string
---@field enable_thinking? boolean
---@field preserve_thinking? boolean

--- Slots of a template: a text, or a list whose items are texts, `{ "bos" }`, `{ "eos" }` or
--- `{ token = "<|user|>" }`. Each item is tokenized separately.
---@alias moonring.Slots string | table[]

local CLASSES = { "plain", "reasoning", "system_in_user" }
local TRIMS = { "newlines", "nothing", "spaces" }
local SLOTS = { "prefix", "system", "user", "assistant", "function_call", "observation" }
local TYPES = { name = "string", like = "string", class = "string", tool_format = "string",
  tools = "string", default_system = "string", stop_words = "table", replace_eos = "boolean",
  efficient_eos = "boolean", thought_words = "table", empty_thought = "string",
  thought_written = "table", thought_trim = "string", tool_call_words = "table",
  date = "string", enable_thinking = "boolean", preserve_thinking = "boolean" }
for _, name in ipairs(SLOTS) do TYPES[name] = "slots" end

local NAMES = {}
for name in pairs(TYPES) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

fields.slots = SLOTS

local function fail(...) errors.fail("template: ", ...) end

--- Normalizes slots to a list of { kind = "text" | "bos" | "eos" | "token", text = "..." }.
---@param value moonring.Slots
---@param where string file and field, for messages
---@return { kind: string, text: string }[]
function fields.read_slots(value, where)
  local list = {}
  for i, slot in ipairs(type(value) == "table" and value or { value }) do
    if type(slot) == "string" then
      list[i] = { kind = "text", text = slot }
    elseif type(slot) == "table" and (slot[1] == "bos" or slot[1] == "eos") then
      list[i] = { kind = slot[1], text = "" }
    elseif type(slot) == "table" and type(slot.token) == "string" then
      list[i] = { kind = "token", text = slot.token }
    else
      fail(where, ": a slot is a text, { \"bos\" }, { \"eos\" } or { token = "
        .. "\"...\" }, got a ", type(slot))
    end
  end
  return list
end

--- Refuses unknown fields and values of a wrong type.
---@param template any
---@param where string file or name, for messages
function fields.check(template, where)
  if type(template) ~= "table" then
    fail(where, ": expected a table, got a ", type(template))
  end
  for name, value in pairs(template) do
    local want = TYPES[name]
    if not want then
      fail(where, ": unknown field '", tostring(name), "'",
        system.did_you_mean(tostring(name), NAMES))
    end
    local kind = type(value)
    local fits = kind == want or want == "slots" and (kind == "string" or kind == "table")
      or name == "enable_thinking" and value == system.null
    if not fits then
      fail(where, ": ", name, ": expected ", want == "slots"
        and "a text or a list of slots" or "a " .. want, ", got a ", kind)
    end
    if want == "table" then
      for _, word in ipairs(value) do
        if type(word) ~= "string" then
          fail(where, ": ", name, ": expected texts, got a ", type(word))
        end
      end
      local most = name == "thought_written" and 3 or 2
      if name ~= "stop_words" and (#value < 2 or #value > most) then
        fail(where, ": ", name, ": expected two texts, got ", #value)
      end
    end
  end
end

local function check_word(word, known, field, where)
  for _, each in ipairs(known) do
    if word == each then return end
  end
  fail(where, ": ", field, ": expected ", table.concat(known, " | "), ", got '", word, "'",
    system.did_you_mean(word, known))
end

--- Refuses an unknown class or thought_trim.
---@param class string
---@param trim string
---@param where string file or name, for messages
function fields.check_words(class, trim, where)
  check_word(class, CLASSES, "class", where)
  check_word(trim, TRIMS, "thought_trim", where)
end

return fields
