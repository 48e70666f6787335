--- Reads a request of the route asample.
local end_tokens = require "moonring.serve.end_tokens"
local errors = require "moonring.base.errors"
local fields = require "moonring.serve.fields"
local null = require("moonring.native.system").null

---@class moonring.serve.sample_request
local sample_request = {}

local FIELDS = { "num_samples", "prompt", "sampling_params", "base_model", "model_path",
  "sampling_session_id", "seq_id", "prompt_logprobs", "topk_prompt_logprobs",
  "topk_sample_logprobs", "target_prompt_logprobs", "prompt_alt_tokens_k",
  "prompt_logprobs_last_n", "record_stability_info", "type" }
local PARAMS = { "max_tokens", "seed", "stop", "temperature", "top_k", "top_p" }
local MOST = { samples = 4096, top = 4096 }

local function whole(object, name, default, least, most)
  local value = fields.get(object, name, "integer", default)
  if value and (value < least or value > most) then
    errors.fail(name, ": expected ", least, " to ", most, ", got ", value)
  end
  return value
end

-- A list in JSON.
local function list(value, where, kind)
  if type(value) ~= "table" then errors.fail(where, ": expected a list, got ", tostring(value)) end
  for key in pairs(value) do
    if type(key) ~= "number" then errors.fail(where, ": expected a list, got an object") end
  end
  for i, each in ipairs(value) do
    if type(each) ~= kind then
      errors.fail(where, ": item ", i - 1, " is ", each == null and "null" or "a " .. type(each),
        ", expected a ", kind)
    end
  end
  return value
end

-- The tokens of a prompt's chunks, one after another.
local function tokens_of(prompt)
  fields.only(prompt, { "chunks" }, "prompt")
  local ids = {}
  for c, chunk in ipairs(list(fields.get(prompt, "chunks", "table", nil, "prompt"),
    "prompt: chunks", "table")) do
    local where = "prompt: chunk " .. c - 1
    local kind = fields.get(chunk, "type", "string", "encoded_text", where)
    if kind ~= "encoded_text" then
      errors.raise("UNIMPLEMENTED", where, ": ", kind, ": the service takes text alone; expected ",
        "chunks of type encoded_text, with tokens")
    end
    fields.only(chunk, { "type", "tokens" }, where)
    local tokens = list(fields.get(chunk, "tokens", "table", nil, where), where .. ": tokens",
      "number")
    for _, id in ipairs(tokens) do ids[#ids + 1] = id end
  end
  return ids
end

-- Adds what ends an answer to the options of sampling. Absent: the model's end tokens; ids: these
-- alone; texts: these and the model's end tokens.
local function add_stops(options, stop, base)
  if stop == nil then
    options.stop_ids = end_tokens.of(base)
    return
  end
  if type(stop) == "string" then stop = { stop } end
  local first = type(stop) == "table" and stop[1]
  local is_text = type(first) == "string"
  list(stop, "sampling_params: stop", is_text and "string" or "number")
  if is_text then
    options.stop_texts, options.stop_ids = stop, end_tokens.of(base)
  else
    options.stop_ids = stop
  end
end

local function options_of(params, base)
  fields.only(params, PARAMS, "sampling_params")
  local where = "sampling_params"
  local top_k = fields.get(params, "top_k", "integer", -1, where)
  if top_k < -1 then
    errors.fail(where, ": top_k: expected -1 (all) or more, got ", top_k)
  end
  local options = {
    temperature = fields.get(params, "temperature", "number", 1, where),
    top_p = fields.get(params, "top_p", "number", 1, where), top_k = math.max(top_k, 0),
    max_new_tokens = fields.get(params, "max_tokens", "integer", false, where) or nil,
  }
  add_stops(options, fields.value(params.stop), base)
  return options
end

-- A tensor of ids in JSON, dense or CSR, as a list for each position. nil: absent.
local function targets_of(value, length)
  if value == nil then return nil end
  local where = "target_prompt_logprobs"
  if type(value) ~= "table" then
    errors.fail(where, ": expected a tensor, got ", tostring(value))
  end
  fields.only(value, { "data", "dtype", "shape", "sparse_crow_indices", "sparse_col_indices" },
    where)
  local data = list(fields.get(value, "data", "table", nil, where), where .. ": data", "number")
  local shape = list(fields.get(value, "shape", "table", nil, where), where .. ": shape", "number")
  if fields.get(value, "dtype", "string", "int64", where) ~= "int64" then
    errors.fail(where, ": expected dtype int64, got ", value.dtype)
  end
  if #shape ~= 2 or shape[1] ~= length - 1 or shape[2] < 1 or shape[2] > MOST.top then
    errors.fail(where, ": shape [", table.concat(shape, ", "), "], expected [", length - 1,
      ", 1 to ", MOST.top, "]: a row for each token of the prompt but the first")
  end
  local rows, width = {}, shape[2]
  for t = 1, shape[1] do
    rows[t] = {}
    for k = 1, width do rows[t][k] = -1 end
  end
  local begins = fields.value(value.sparse_crow_indices)
  if not begins then
    if #data ~= shape[1] * width then
      errors.fail(where, ": ", #data, " numbers, expected ", shape[1], " x ", width)
    end
    for i, id in ipairs(data) do
      rows[math.floor((i - 1) / width) + 1][(i - 1) % width + 1] = id
    end
    return rows
  end
  list(begins, where .. ": sparse_crow_indices", "number")
  local columns = list(fields.get(value, "sparse_col_indices", "table", nil, where),
    where .. ": sparse_col_indices", "number")
  if #begins ~= shape[1] + 1 or #columns ~= #data or begins[#begins] ~= #data then
    errors.fail(where, ": its sparse indices do not fit its shape and data")
  end
  for t = 1, shape[1] do
    for i = begins[t] + 1, begins[t + 1] do
      if not columns[i] or not rows[t][columns[i] + 1] then
        errors.fail(where, ": its sparse indices do not fit its shape and data")
      end
      rows[t][columns[i] + 1] = data[i]
    end
  end
  return rows
end

-- Reads which scores of prompt tokens a request wants. Returns `prompt_scores` of Queue:add (nil:
-- none), and whether the response has the prompt's log-probs.
local function scores_of(request, length)
  local wants = fields.get(request, "prompt_logprobs", "boolean", false)
  local top = whole(request, "topk_prompt_logprobs", 0, 0, MOST.top)
  local targets = targets_of(fields.value(request.target_prompt_logprobs), length)
  local last = whole(request, "prompt_logprobs_last_n", false, 1, math.max(1, length - 1)) or nil
  if last and not wants then
    errors.fail("prompt_logprobs_last_n: expected prompt_logprobs: true with it")
  end
  if not wants and top == 0 and not targets then return nil end
  return { top = top > 0 and top or nil, last = last, targets = targets and { targets } }, wants
end

--- A request for Queue:add, which still needs `key`, `done` and `fail`.
---@class moonring.serve.SampleRequest: moonring.serve.Request
---@field seed? integer
---@field wants_log_probs boolean whether the prompt's log-probs are part of the answer

--- The name of the weights to sample from.
---@param request table
---@return string
function sample_request.weights(request)
  for _, name in ipairs { "sampling_session_id", "model_path", "base_model" } do
    local value = fields.get(request, name, "string", false)
    if value then return value end
  end
  errors.fail "asample: expected a sampling_session_id, model_path or base_model"
end

--- Reads a request. Errors: INVALID_ARGUMENT, UNIMPLEMENTED, naming the field.
---@param request table
---@param weights moonring.serve.Weights
---@return moonring.serve.SampleRequest
function sample_request.read(request, weights)
  fields.only(request, FIELDS, "asample")
  if whole(request, "prompt_alt_tokens_k", 0, 0, MOST.top) > 0 then
    errors.raise("UNIMPLEMENTED", "prompt_alt_tokens_k: sampled alternatives to a prompt's ",
      "tokens are not offered; expected 0")
  end
  if fields.get(request, "record_stability_info", "boolean", false) then
    errors.raise("UNIMPLEMENTED", "record_stability_info: the service has no stable_reinforce; ",
      "expected false")
  end
  local ids = tokens_of(fields.get(request, "prompt", "table"))
  local params = fields.get(request, "sampling_params", "table", {})
  local scores, wants = scores_of(request, #ids)
  local top = whole(request, "topk_sample_logprobs", 0, 0, MOST.top)
  return { weights = weights, prompts = { ids },
    answers = whole(request, "num_samples", 1, 1, MOST.samples),
    options = options_of(params, weights.base),
    seed = fields.get(params, "seed", "integer", false, "sampling_params") or nil,
    top = top > 0 and top or nil, prompt_scores = scores, wants_log_probs = wants or false }
end

return sample_request
