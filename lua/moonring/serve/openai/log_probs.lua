--- Log-probs of tokens in the two forms of OpenAI's API.
local system = require "moonring.native.system"
local token_texts = require "moonring.serve.openai.token_texts"

---@class moonring.serve.openai.log_probs
local log_probs = {}

local LEAST = -9999 -- in place of -inf, which JSON does not have

--- A token of an answer or a prompt.
---@class moonring.serve.openai.Token
---@field id integer
---@field bytes string
---@field is_special boolean
---@field is_shown boolean whether the text contains it
---@field log_prob? number nil for the first token of a prompt
---@field top? moonring.TopTokens

--- A token.
---@param tokenizer moonring.Tokenizer
---@param id integer
---@param log_prob? number
---@param top? moonring.TopTokens | false
---@param keeps_special? boolean
---@return moonring.serve.openai.Token
function log_probs.token(tokenizer, id, log_prob, top, keeps_special)
  local bytes, is_special = tokenizer:token_bytes(id)
  return { id = id, bytes = bytes, is_special = is_special,
    is_shown = keeps_special or not is_special,
    log_prob = log_prob and math.max(log_prob, LEAST), top = top or nil }
end

-- Calls visit(bytes, log_prob) for the `count` likeliest tokens at a token's place.
local function each_top(token, tokenizer, count, visit)
  if not token.top then return end
  for k = 1, math.min(count, #token.top.ids) do
    local id = token.top.ids[k]
    visit((tokenizer:token_bytes(id)), math.max(token.top.log_probs[k], LEAST), id)
  end
end

--- The form of /v1/completions. In top_logprobs, which is by text, the token itself is always
--- there; of several tokens with one text the likeliest is.
---@param tokens moonring.serve.openai.Token[]
---@param tokenizer moonring.Tokenizer
---@param count integer likeliest tokens of each place
---@param offset? integer characters of the text before the first token
---@return table
---@return integer offset characters of the text up to the last token
function log_probs.of_completion(tokens, tokenizer, count, offset)
  offset = offset or 0
  local list = { tokens = {}, token_logprobs = {}, top_logprobs = {}, text_offset = {} }
  for i, token in ipairs(tokens) do
    list.tokens[i] = token_texts.shown(token.bytes)
    list.token_logprobs[i] = token.log_prob or system.null
    list.text_offset[i] = offset
    if token.is_shown then offset = offset + token_texts.characters(token.bytes) end
    if token.log_prob then
      local top = { [list.tokens[i]] = token.log_prob }
      each_top(token, tokenizer, count, function(bytes, log_prob)
        local text = token_texts.shown(bytes)
        if not top[text] or top[text] < log_prob then top[text] = log_prob end
      end)
      list.top_logprobs[i] = top
    else
      list.top_logprobs[i] = system.null
    end
  end
  return list, offset
end

local function bytes_of(bytes) return { bytes:byte(1, -1) } end

--- The form of /v1/chat/completions.
---@param tokens moonring.serve.openai.Token[]
---@param tokenizer moonring.Tokenizer
---@param count integer likeliest tokens of each place
---@return table
function log_probs.of_chat(tokens, tokenizer, count)
  local content = {}
  for i, token in ipairs(tokens) do
    local top = {}
    each_top(token, tokenizer, count, function(bytes, log_prob)
      top[#top + 1] = { token = token_texts.shown(bytes), logprob = log_prob,
        bytes = bytes_of(bytes) }
    end)
    content[i] = { token = token_texts.shown(token.bytes), logprob = token.log_prob,
      bytes = bytes_of(token.bytes), top_logprobs = top }
  end
  return { content = content, refusal = system.null }
end

return log_probs
