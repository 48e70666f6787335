--- One answer of a response: its tokens and text, as they come.
local log_probs = require "moonring.serve.openai.log_probs"
local token_texts = require "moonring.serve.openai.token_texts"

---@class moonring.serve.openai.choices
local choices = {}

---@class moonring.serve.openai.Choice
---@field prompt integer number of its prompt, from 1
---@field index integer in the response, from 0
---@field tokens moonring.serve.openai.Token[] generated
---@field prompt_text? string with `echo`
---@field prompt_tokens? moonring.serve.openai.Token[] with `echo` and log-probs
---@field reason? "stop" | "length"
---@field last_text? string what `finish` added to the text
---@field offset integer characters of the text up to the last token that was sent
local Choice = {}
Choice.__index = Choice

--- A choice without any token.
---@param tokenizer moonring.Tokenizer
---@param read table the request's fields
---@param prompt integer
---@param index integer
---@return moonring.serve.openai.Choice
function choices.new(tokenizer, read, prompt, index)
  return setmetatable({ tokenizer = tokenizer, prompt = prompt, index = index, tokens = {},
    keeps_special = not read.skip_special_tokens, answer = token_texts.answer(tokenizer, read),
    offset = 0 }, Choice)
end

--- Adds a generated token.
---@param id integer
---@param log_prob number
---@param top? moonring.TopTokens
---@return string text that can be sent now
---@return moonring.serve.openai.Token
function Choice:push(id, log_prob, top)
  local token = log_probs.token(self.tokenizer, id, log_prob, top, self.keeps_special)
  self.tokens[#self.tokens + 1] = token
  return self.answer:push(token.bytes, token.is_special), token
end

--- Ends the answer.
---@param is_stopped boolean whether a stop id or text ended it; false: its limit of tokens did
function Choice:finish(is_stopped)
  self.last_text = self.answer:finish()
  self.reason = (is_stopped or self.answer.stopped) and "stop" or "length"
end

--- Its text, without the prompt.
---@return string
function Choice:text() return self.answer:text() end

return choices
