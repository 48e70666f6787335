--- The routes tokenize, detokenize and tokenizer_info, by which clients without a tokenizer of
-- their own use the model's (as in vLLM).
local chat_prompts = require "moonring.serve.openai.chat_prompts"
local errors = require "moonring.base.errors"
local field_rows = require "moonring.serve.openai.field_rows"
local prompts = require "moonring.serve.openai.prompts"
local request_fields = require "moonring.serve.openai.request_fields"
local system = require "moonring.native.system"
local token_texts = require "moonring.serve.openai.token_texts"

---@class moonring.serve.openai.tokens
local tokens = {}

local function base_of(service, name)
  if not name then return service.bases:open(service.bases.list[1].name) end
  return service:weights(name).base
end

--- { tokens, count, max_model_len, token_strs? } of a text or a conversation.
---@param service moonring.Service
---@param job moonring.serve.Job
---@param request table decoded JSON
---@return table
function tokens.tokenize(service, job, request)
  local read = request_fields.read(request, field_rows.tokenize)
  if (read.prompt == nil) == (read.messages == nil) then
    errors.fail "prompt: expected a prompt, or messages"
  end
  local base = base_of(service, read.model)
  local ids = read.prompt and prompts.encode(read.prompt, base:words(), read.add_special_tokens)
    or chat_prompts.encode(service, base, job.body)
  local result = { tokens = ids, count = #ids,
    max_model_len = base.checkpoint:max_position_embeddings() }
  if read.return_token_strs then
    result.token_strs = {}
    for i, id in ipairs(ids) do
      result.token_strs[i] = token_texts.shown((base:words():token_bytes(id)))
    end
  end
  return result
end

--- { prompt }: the text of token ids.
---@param service moonring.Service
---@param _ moonring.serve.Job
---@param request table decoded JSON
---@return table
function tokens.detokenize(service, _, request)
  local read = request_fields.read(request, field_rows.detokenize)
  local tokenizer = base_of(service, read.model):words()
  for i, id in ipairs(read.tokens) do
    if id < 0 or id >= tokenizer:end_id() then
      errors.fail("tokens[", i - 1, "]: expected a token id from 0 to ", tokenizer:end_id() - 1,
        ", got ", id)
    end
  end
  return { prompt = tokenizer:decode(read.tokens) }
end

-- The text of the template that a model carries; null if there is none.
local function template_text(base)
  local own = base.checkpoint:companion "chat_template.jinja"
  if own then return own end
  local text = base.checkpoint:companion "tokenizer_config.json"
  local settings = text and system.json_decode(text, "tokenizer_config.json")
  local carried = type(settings) == "table" and settings.chat_template
  return type(carried) == "string" and carried or system.null
end

--- The special tokens of the first model, and its chat template.
---@param service moonring.Service
---@return table
function tokens.tokenizer_info(service)
  local base = base_of(service)
  local tokenizer = base:words()
  local function word(id) return id and tokenizer:token_of(id) or system.null end
  return { tokenizer_class = "moonring", eos_token = word(tokenizer:eos()),
    bos_token = word(tokenizer:bos()), chat_template = template_text(base),
    model_max_length = base.checkpoint:max_position_embeddings() }
end

return tokens
