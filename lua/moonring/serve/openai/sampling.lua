--- What the requests for completions and for chat have in common: fields, options, and how they are
-- added to the queue.
local end_tokens = require "moonring.serve.end_tokens"
local errors = require "moonring.base.errors"
local replies = require "moonring.serve.openai.reply"
local request_fields = require "moonring.serve.openai.request_fields"
local sampled_jobs = require "moonring.serve.sampled_jobs"
local system = require "moonring.native.system"

---@class moonring.serve.openai.sampling
local sampling = {}

--- The model that a request names, for sampled_jobs. Errors: INVALID_ARGUMENT.
---@param request table decoded JSON
---@return string
function sampling.weights(request)
  local model = request.model
  if type(model) ~= "string" then
    errors.fail("model: expected the name of a model (GET /v1/models lists them), got ",
      model == nil and "none" or "a " .. type(model))
  end
  return model
end

-- Checks what concerns several fields.
local function check(read)
  local stops = type(read.stop) == "string" and { read.stop } or read.stop
  for i, text in ipairs(stops) do
    if text == "" then
      errors.fail("stop", type(read.stop) == "table" and "[" .. i - 1 .. "]" or "",
        ": expected a text of at least one character, got ''")
    end
  end
  for name in pairs(read.stream_options) do
    if name ~= "include_usage" then
      errors.fail("stream_options: no such field: ", tostring(name), "; fields: include_usage")
    end
  end
  local usage = read.stream_options.include_usage
  if usage ~= nil and usage ~= system.null and type(usage) ~= "boolean" then
    errors.fail "stream_options: include_usage: expected true or false"
  end
end

--- Reads a request's fields, and checks those that both kinds have.
---@param request table decoded JSON
---@param rows moonring.serve.openai.FieldRow[]
---@return table read values by name
function sampling.read(request, rows)
  local read = request_fields.read(request, rows)
  check(read)
  return read
end

-- Ids that end an answer: the model's own, and those of the request.
local function stop_ids(read, base, more)
  local list, seen = {}, {}
  local function add(ids)
    for _, id in ipairs(ids or {}) do
      if not seen[id] then list[#list + 1] = id end
      seen[id] = true
    end
  end
  if not read.ignore_eos then
    add(end_tokens.of(base))
    add(more)
  end
  add(read.stop_token_ids)
  return list
end

--- The options of Queue:add.
---@param read table
---@param base moonring.serve.Base
---@param most? integer max_new_tokens
---@param more_stop_ids? integer[] of the chat template
---@return moonring.serve.Sampling
function sampling.options(read, base, most, more_stop_ids)
  return { max_new_tokens = most, temperature = read.temperature, top_p = read.top_p,
    top_k = math.max(read.top_k, 0), min_p = read.min_p,
    repetition_penalty = read.repetition_penalty,
    stop_ids = stop_ids(read, base, more_stop_ids),
    stop_texts = type(read.stop) == "string" and { read.stop } or read.stop }
end

--- A request that has been read.
---@class moonring.serve.openai.Request
---@field read table fields
---@field form moonring.serve.openai.Form
---@field weights moonring.serve.Weights
---@field tokenizer moonring.Tokenizer
---@field prompts { ids: integer[], text: string? }[]
---@field options moonring.serve.Sampling
---@field wants_log_probs boolean
---@field top? integer likeliest tokens of each new one
---@field prompt_scores? { top: integer? }
--- `on_scores` is called before the answers are formed.
---@field on_scores? fun(reply: moonring.serve.openai.Reply, scores: moonring.serve.Scores[]?)

-- Whether tokens are taken as they come: rank 0 then decodes the request. On one rank this is
-- always so, so that the answers of a client that has left can be ended.
local function takes_tokens(service, request)
  if request.read.stream then return not (request.prompt_scores or request.read.echo) end
  return service.mesh:size() == 1
end

--- Adds a request to the queue. Rank 0 replies to it.
---@param service moonring.Service
---@param queue moonring.serve.Queue
---@param job moonring.serve.Job
---@param request moonring.serve.openai.Request
function sampling.add(service, queue, job, request)
  local read, ids = request.read, {}
  for p, prompt in ipairs(request.prompts) do ids[p] = prompt.ids end
  local reply = service.door and replies.new(service, job, request)
  local function done(answers, scores)
    if request.on_scores then request.on_scores(reply, scores) end
    reply:done(answers)
  end
  if request.options.max_new_tokens == 0 and not request.prompt_scores then -- nothing to compute
    return reply and sampling.answer_empty(reply, done)
  end
  queue:add { weights = request.weights, prompts = ids, answers = read.n,
    key = sampled_jobs.key(job, read.seed), options = request.options, top = request.top,
    prompt_scores = request.prompt_scores,
    on_token = takes_tokens(service, request) and function(p, answer, id, log_prob, top)
      return reply:token(reply.choices[(p - 1) * read.n + answer], id, log_prob, top)
    end or nil,
    done = done, fail = function(why) reply:fail(why) end }
end

--- Replies to a request for no tokens.
---@param reply moonring.serve.openai.Reply
---@param done fun(answers: moonring.RolloutAnswer[][])
function sampling.answer_empty(reply, done)
  local answers = {}
  for p = 1, #reply.prompts do
    answers[p] = {}
    for a = 1, reply.read.n do answers[p][a] = { ids = {}, log_probs = {}, stopped = false } end
  end
  done(answers)
end

return sampling
