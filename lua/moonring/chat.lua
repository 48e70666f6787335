--- Talking with a model: a conversation that grows turn by turn.
local config = require "moonring.config"

local chat = {}
local Chat = {}
Chat.__index = Chat

--- The named template that fits the one a checkpoint carries, by what it writes.
function chat.guess_template(checkpoint)
  local text = (checkpoint:companion "tokenizer_config.json" or "") .. (checkpoint:companion "chat_template.jinja" or "")
  if text:find("named SmolLM", 1, true) then return "smollm2" end
  if text:find("<|im_start|>", 1, true) then return "chatml" end
  return "default"
end

--- Options of generate out of LLaMA-Factory's keys. Greedy, so that an answer can be had twice, unless one of the keys of
-- sampling was given.
function chat.sampling(c)
  local sample = c.do_sample
  if sample == nil then sample = (c.given.temperature or c.given.top_p or c.given.top_k) ~= nil end
  if sample and c.temperature <= 0 then config.fail("temperature: wanted more than 0, got ", c.temperature, "; do_sample=false takes the likeliest token") end
  return {
    max_new_tokens = c.max_new_tokens,
    temperature = sample and c.temperature or 0,
    top_k = sample and c.top_k or 0,
    top_p = sample and c.top_p or 1,
    repetition_penalty = c.repetition_penalty,
    seed = c.seed,
  }
end

function chat.new(model, tokenizer, template, sampling)
  return setmetatable({ model = model, tokenizer = tokenizer, template = template, sampling = sampling, texts = {} }, Chat)
end

function Chat:clear() self.texts = {} end

--- The answer to `text` after all that was said; `on_text` sees it piece by piece, never half a character.
function Chat:answer(text, on_text)
  self.texts[#self.texts + 1] = text
  local options = { stop_ids = self.template:stop_ids() }
  for name, value in pairs(self.sampling) do options[name] = value end
  local ids, shown = {}, 0
  local prompt, bos = self.template:encode_prompt(self.texts), self.tokenizer:leading_bos()
  if bos and prompt[1] ~= bos then table.insert(prompt, 1, bos) end -- a template may leave it to the tokenizer
  self.model:generate(prompt, options, function(id)
    ids[#ids + 1] = id
    local whole = self.tokenizer:decode(ids, true)
    if on_text and whole:sub(-3) ~= "\239\191\189" then -- U+FFFD at the end: a character whose bytes are not all there yet
      on_text(whole:sub(shown + 1))
      shown = #whole
    end
  end)
  local answer = self.tokenizer:decode(ids, true)
  if on_text and shown < #answer then on_text(answer:sub(shown + 1)) end
  self.texts[#self.texts + 1] = answer
  return answer
end

return chat
