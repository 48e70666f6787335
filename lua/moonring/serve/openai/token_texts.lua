--- Texts of token ids, and the text of an answer as its tokens come.
local data = require "moonring.native.data"
local system = require "moonring.native.system"

---@class moonring.serve.openai.token_texts
local token_texts = {}

--- The text of a token as responses show it. Bytes that are not whole characters are shown as
--- "bytes:\xe2\x82", as by OpenAI.
---@param bytes string
---@return string
function token_texts.shown(bytes)
  local text, rest = data.whole_characters(bytes)
  if rest == "" and text == bytes then return text end
  return "bytes:" .. bytes:gsub(".", function(c) return ("\\x%02x"):format(c:byte()) end)
end

--- Number of characters that begin in these bytes.
---@param bytes string
---@return integer
function token_texts.characters(bytes)
  local _, inner = bytes:gsub("[\128-\191]", "")
  return #bytes - inner
end

--- The text of an answer, by token. `push` returns what can be sent: bytes of an incomplete
--- character wait for the rest, and text that may be the beginning of a stop text waits, too.
---@class moonring.serve.openai.AnswerText
---@field tokenizer moonring.Tokenizer
---@field stops string[]
---@field keeps_stop boolean
---@field keeps_special boolean
---@field parts string[] what `push` and `finish` returned
---@field pending string text that waits
---@field bytes string of an incomplete character
---@field stopped boolean whether a stop text was found
local AnswerText = {}
AnswerText.__index = AnswerText

--- An answer without any text.
---@param tokenizer moonring.Tokenizer
---@param request table values of request_fields
---@return moonring.serve.openai.AnswerText
function token_texts.answer(tokenizer, request)
  local stops = request.stop
  return setmetatable({ tokenizer = tokenizer,
    stops = type(stops) == "string" and { stops } or stops,
    keeps_stop = request.include_stop_str_in_output,
    keeps_special = not request.skip_special_tokens,
    parts = {}, pending = "", bytes = "", stopped = false }, AnswerText)
end

-- The bytes of the first stop text: its first and last. If several begin there, that of the first
-- in the list.
local function find_stop(text, stops)
  local first, last
  for _, stop in ipairs(stops) do
    local at = system.find_text(text, stop, 1)
    if at and (not first or at < first) then first, last = at, at + #stop - 1 end
  end
  return first, last
end

-- How many bytes at the end of `text` begin a stop text.
local function begun(text, stops)
  local most = 0
  for _, stop in ipairs(stops) do
    for length = math.min(#stop - 1, #text), most + 1, -1 do
      if text:sub(-length) == stop:sub(1, length) then
        most = length
        break
      end
    end
  end
  return most
end

local function give(self, text)
  if text ~= "" then self.parts[#self.parts + 1] = text end
  return text
end

-- Takes text that has come. Returns the part of it that can be sent.
local function take(self, text, is_last)
  if self.stopped then return "" end
  local all = self.pending .. text
  local first, last = find_stop(all, self.stops)
  if first then
    self.stopped, self.pending = true, ""
    return give(self, all:sub(1, self.keeps_stop and last or first - 1))
  end
  local waits = is_last and 0 or begun(all, self.stops)
  self.pending = all:sub(#all - waits + 1)
  return give(self, all:sub(1, #all - waits))
end

--- Adds a token. Returns the text that can be sent now.
---@param bytes string the token's
---@param is_special boolean
---@return string
function AnswerText:push(bytes, is_special)
  if is_special and not self.keeps_special then return "" end
  local text
  text, self.bytes = data.whole_characters(self.bytes .. bytes)
  return take(self, text, false)
end

--- Ends the answer. Returns the text that has waited.
---@return string
function AnswerText:finish()
  local text = data.whole_characters(self.bytes)
  if self.bytes ~= "" then text = text .. "\239\191\189" end -- U+FFFD
  self.bytes = ""
  return take(self, text, true)
end

--- The whole text so far.
---@return string
function AnswerText:text() return table.concat(self.parts) end

return token_texts
