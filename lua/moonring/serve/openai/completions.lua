--- The route completions: texts or token ids are continued, and scored.
local errors = require "moonring.base.errors"
local field_rows = require "moonring.serve.openai.field_rows"
local log_probs = require "moonring.serve.openai.log_probs"
local prompts = require "moonring.serve.openai.prompts"
local sampling = require "moonring.serve.openai.sampling"
local system = require "moonring.native.system"

---@class moonring.serve.openai.completions
---@field weights fun(request: table): string
local completions = {}
completions.weights = sampling.weights

-- The log-probs of a choice's prompt, if it is echoed, and of further tokens.
local function log_probs_of(reply, choice, tokens)
  if not reply.read.logprobs then return system.null end
  local list
  list, choice.offset = log_probs.of_completion(tokens, reply.tokenizer, reply.read.logprobs,
    choice.offset)
  return list
end

local function with_prompt(choice, tokens)
  local all = {}
  for _, list in ipairs { choice.prompt_tokens or {}, tokens } do
    for _, token in ipairs(list) do all[#all + 1] = token end
  end
  return all
end

---@type moonring.serve.openai.Form
local FORM = { id = "cmpl-", object = "text_completion", part_object = "text_completion" }

function FORM.choice(reply, choice)
  return { index = choice.index, text = (choice.prompt_text or "") .. choice:text(),
    finish_reason = choice.reason,
    logprobs = log_probs_of(reply, choice, with_prompt(choice, choice.tokens)) }
end

function FORM.part(reply, choice, text, tokens, reason)
  if reason and choice.prompt_text then -- with echo all comes in the last part
    local whole = FORM.choice(reply, choice)
    whole.finish_reason = reason
    return whole
  end
  return { index = choice.index, text = text, finish_reason = reason or system.null,
    logprobs = #tokens > 0 and log_probs_of(reply, choice, tokens) or system.null }
end

local function check(read)
  if read.best_of and read.best_of ~= read.n then
    errors.raise("UNIMPLEMENTED", "best_of: expected n, which is ", read.n, ", got ", read.best_of,
      ": all answers are returned")
  end
  if read.max_tokens == 0 and not read.echo then
    errors.fail "max_tokens: expected at least 1, or echo with 0"
  end
end

-- The tokens of an echoed prompt, with their scores.
local function prompt_tokens(reply, prompt, scores)
  local tokens = {}
  for t, id in ipairs(prompt.ids) do
    local log_prob = t >= scores.first and scores.log_probs[t] or nil
    tokens[t] = log_probs.token(reply.tokenizer, id, log_prob, scores.top and scores.top[t], true)
  end
  return prompts.fit_first(tokens, prompt.text)
end

-- With echo every choice begins with its prompt.
local function echo(reply, scores)
  for _, choice in ipairs(reply.choices) do
    local prompt = reply.prompts[choice.prompt]
    choice.prompt_text = prompt.text
    choice.prompt_tokens = scores and prompt_tokens(reply, prompt, scores[choice.prompt])
  end
end

--- Adds a job to the queue.
---@param service moonring.Service
---@param queue moonring.serve.Queue
---@param job moonring.serve.Job
---@param request table decoded JSON
---@param weights moonring.serve.Weights
function completions.add(service, queue, job, request, weights)
  local read = sampling.read(request, field_rows.completions)
  check(read)
  local tokenizer = weights.base:words()
  local scored = read.echo and read.logprobs
  sampling.add(service, queue, job, { read = read, form = FORM, weights = weights,
    tokenizer = tokenizer, prompts = prompts.read(read, tokenizer),
    options = sampling.options(read, weights.base, read.max_tokens),
    wants_log_probs = read.logprobs ~= nil, top = read.logprobs,
    prompt_scores = scored and { top = read.logprobs } or nil,
    on_scores = read.echo and echo or nil })
end

return completions
