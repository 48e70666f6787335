--- The route chat_completions: the model answers a conversation, through its chat template.
local chat_prompts = require "moonring.serve.openai.chat_prompts"
local errors = require "moonring.base.errors"
local field_rows = require "moonring.serve.openai.field_rows"
local log_probs = require "moonring.serve.openai.log_probs"
local sampling = require "moonring.serve.openai.sampling"
local system = require "moonring.native.system"

---@class moonring.serve.openai.chat_completions
---@field weights fun(request: table): string
local chat_completions = {}
chat_completions.weights = sampling.weights

local function log_probs_of(reply, tokens)
  if not reply.read.logprobs or #tokens == 0 then return system.null end
  return log_probs.of_chat(tokens, reply.tokenizer, reply.read.top_logprobs)
end

---@type moonring.serve.openai.Form
local FORM = { id = "chatcmpl-", object = "chat.completion", part_object = "chat.completion.chunk" }

function FORM.choice(reply, choice)
  return { index = choice.index, finish_reason = choice.reason,
    message = { role = "assistant", content = choice:text(), refusal = system.null },
    logprobs = log_probs_of(reply, choice.tokens) }
end

function FORM.opening(_, choice)
  return { index = choice.index, delta = { role = "assistant", content = "" },
    finish_reason = system.null, logprobs = system.null }
end

function FORM.part(reply, choice, text, tokens, reason)
  return { index = choice.index, delta = { content = text }, finish_reason = reason or system.null,
    logprobs = log_probs_of(reply, tokens) }
end

local function most_tokens(read)
  local a, b = read.max_completion_tokens, read.max_tokens
  if a and b and a ~= b then
    errors.fail("max_tokens: expected ", a, ", as max_completion_tokens, or none, got ", b)
  end
  return a or b
end

local function check(read)
  if read.top_logprobs > 0 and not read.logprobs then
    errors.fail("top_logprobs: expected logprobs: true with it")
  end
end

--- Adds a job to the queue.
---@param service moonring.Service
---@param queue moonring.serve.Queue
---@param job moonring.serve.Job
---@param request table decoded JSON
---@param weights moonring.serve.Weights
function chat_completions.add(service, queue, job, request, weights)
  local read = sampling.read(request, field_rows.chat_completions)
  check(read)
  local base = weights.base
  local ids, stop_ids = chat_prompts.encode(service, base, job.body)
  sampling.add(service, queue, job, { read = read, form = FORM, weights = weights,
    tokenizer = base:words(), prompts = { { ids = ids } },
    options = sampling.options(read, base, most_tokens(read), stop_ids),
    wants_log_probs = read.logprobs, top = read.logprobs and read.top_logprobs or nil })
end

return chat_completions
