--- The route asample: answers to a prompt, and log-probs of its tokens.
local native = require "moonring.native.serve"
local refusals = require "moonring.serve.refusals"
local sample_request = require "moonring.serve.sample_request"
local sampled_jobs = require "moonring.serve.sampled_jobs"
local tensor = require "moonring.native.tensor"

--- `handlers`: for sampled_jobs.run, by route.
---@class moonring.serve.routes_sampling
---@field handlers table<string, moonring.serve.SampledRoute>
local routes_sampling = {}

-- Lists of the likeliest tokens as the message has them: a row for each position.
local function rows_of(top, count)
  local rows = { k = count, ids = {}, logprobs = {} }
  for t, each in ipairs(top) do
    rows.ids[t], rows.logprobs[t] = each and each.ids or {}, each and each.log_probs or {}
  end
  return rows
end

-- The log-probs of targets, [length - 1, K]; 0 where none was asked for.
local function target_tensor(targets)
  local rows = {}
  for t = 2, #targets do rows[t - 1] = targets[t] end
  return tensor.tensor(rows, "fp32")
end

-- SampleResponse of a request's results.
local function response(read, answers, scores)
  local result = { sequences = {} }
  for a, answer in ipairs(answers[1]) do
    result.sequences[a] = { tokens = answer.ids, logprobs = answer.log_probs,
      stop_reason = answer.stopped and "stop" or "length",
      topk = read.top and rows_of(answer.top or {}, read.top) or nil }
  end
  local of_prompt = scores and scores[1]
  if of_prompt then
    local asked = read.prompt_scores
    result.prompt_logprobs = read.wants_log_probs and of_prompt.log_probs or nil
    result.topk_prompt_logprobs = asked.top and rows_of(of_prompt.top, asked.top) or nil
    result.target_prompt_logprobs = asked.targets and target_tensor(of_prompt.targets) or nil
  end
  return native.write_sample(result)
end

local function add(service, queue, job, request, weights)
  local read = sample_request.read(request, weights)
  read.key = sampled_jobs.key(job, read.seed)
  function read.done(answers, scores)
    local body = tensor.scope(response, read, answers, scores)
    service.door:done(job.id, body, "application/x-protobuf")
  end
  function read.fail(why) refusals.refuse(service, job, why) end
  queue:add(read)
end

routes_sampling.handlers = { asample = { weights = sample_request.weights, add = add } }

--- Runs jobs of asample, and those that come meanwhile. Collective over all ranks.
---@param service moonring.Service
---@param jobs moonring.serve.Job[]
function routes_sampling.run(service, jobs)
  sampled_jobs.run(service, jobs, routes_sampling.handlers)
end

return routes_sampling
