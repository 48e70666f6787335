--- moonring [-n RANKS] serve_asample.lua MODEL SP: the route asample, with a door that hands out
-- jobs and keeps what is answered. Rank 0 prints the results as JSON.
local moonring = require "moonring"
local routes_sampling = require "moonring.serve.routes_sampling"
local errors = require "moonring.base.errors"
local messages = dofile((arg[0]:gsub("[^/]*$", "")) .. "protobuf_fields.lua")
local system = require "moonring.native.system"

local mesh = moonring.comm.mesh { sp = tonumber(arg[2]) }
local checkpoint = moonring.model.open(arg[1])
local model = moonring.model.load(checkpoint, { precision = "fp64" })
local tokenizer = moonring.data.tokenizer(checkpoint)
local base = { name = "base", checkpoint = checkpoint, tokenizer = tokenizer }

-- Jobs that wait, and what was answered.
local later, answered, failed = {}, {}, {}
local door = {}
function door:next(seconds, routes) -- luacheck: no unused args
  assert(seconds == 0 and routes[1] == "asample" and not routes[2])
  return table.remove(later, 1)
end
function door:done(id, body, type)
  assert(type == "application/x-protobuf" and not answered[id] and not failed[id])
  answered[id] = messages.sample(body)
end
function door:fail(id, message, category)
  assert(not answered[id] and not failed[id])
  failed[id] = category .. ": " .. message
end
function door:ended() return 0 end -- luacheck: no unused args

local looked_up = {}
local service = { mesh = mesh, attention = moonring.attention.create { mesh = mesh },
  config = { rollout_sequences = 8, rollout_spread_length = 30 },
  door = mesh:rank() == 0 and door or nil,
  note = function(_, line) print(line) end,
  weights = function(_, name)
    looked_up[#looked_up + 1] = name
    if name == "gone" then errors.raise("NOT_FOUND", "no session gone") end
    return { id = name, model = model, base = base } -- a new table each time, as of the service
  end }

local function job(id, request, seed)
  return { id = id, route = "asample", seed = seed or 1000 + id,
    body = type(request) == "string" and request or system.json_encode(request) }
end
local function prompt(...) return { chunks = { { type = "encoded_text", tokens = { ... } } } } end
local function sample(changes)
  local request = { sampling_session_id = "x", seq_id = 0, num_samples = 1,
    prompt = prompt(5, 6, 7, 8, 9), sampling_params = { max_tokens = 6, seed = 1,
      temperature = 1.0, top_k = -1, top_p = 1.0, stop = {} }, type = "sample" }
  for name, value in pairs(changes or {}) do request[name] = value end
  return request
end
local function params(changes)
  local given = sample().sampling_params
  for name, value in pairs(changes) do given[name] = value ~= "absent" and value or nil end
  return { sampling_params = given }
end
local function with(a, b)
  for name, value in pairs(b) do a[name] = value end
  return a
end

-- Jobs whose answers are checked; those that are refused, with the words.
local long = {}
for t = 1, 40 do long[t] = 5 + t % 50 end
local good = {
  sample { num_samples = 3 },                                          -- 1
  sample { num_samples = 3, seq_id = 1 },                              -- 2: the same draws
  sample(with(params { seed = 2 }, { num_samples = 3 })),              -- 3: others
  sample(params { seed = "absent" }),                                  -- 4: the job's own
  sample(params { seed = "absent" }),                                  -- 5
  sample(with(params { max_tokens = 1 }, { prompt_logprobs = true })), -- 6: compute_logprobs
  sample(with(params { max_tokens = 1, temperature = 0 }, { prompt_logprobs = true,
    topk_prompt_logprobs = 3, topk_sample_logprobs = 2, prompt_logprobs_last_n = 2 })), -- 7
  sample { prompt = { chunks = { { type = "encoded_text", tokens = { 5, 6 } },
    { type = "encoded_text", tokens = { 7, 8, 9 } } } }, num_samples = 3 },             -- 8: as 1
  sample(params { max_tokens = "absent", stop = "absent" }),           -- 9: to the context's end
  sample(params { stop = "a", max_tokens = 200 }),                     -- 10: a text
  sample(params { stop = { "a", "e" }, max_tokens = 200 }),            -- 11
  sample { target_prompt_logprobs = { data = { 6, -1, 7, 11, 8, 12, 9, -1 }, dtype = "int64",
    shape = { 4, 2 } }, prompt_logprobs = true },                      -- 12
  sample { target_prompt_logprobs = { data = { 6, 11 }, dtype = "int64", shape = { 4, 2 },
    sparse_crow_indices = { 0, 1, 2, 2, 2 }, sparse_col_indices = { 0, 1 } } },         -- 13
  sample { prompt = prompt(unpack(long)), num_samples = 2, prompt_logprobs = true },    -- 14
  sample { base_model = "base", sampling_session_id = system.null },   -- 15
  sample { model_path = "tinker://m/weights/w", sampling_session_id = system.null },    -- 16
}
local bad = {
  { "user: asample:1:2: not valid JSON", "{" }, { "expected a JSON object, got 3", "3" },
  { "did you mean 'num_samples'", sample { num_sample = 2 } },
  { "num_samples: expected 1 to 4096, got 0", sample { num_samples = 0 } },
  { "num_samples: expected an integer, got 'many'", sample { num_samples = "many" } },
  { "sampling_params: unknown field 'tempreature'", sample(params { tempreature = 1 }) },
  { "temperature: expected a number, 0 (greedy) or more, got -1",
    sample(params { temperature = -1 }) },
  { "top_k: expected -1 (all) or more", sample(params { top_k = -2 }) },
  { "stop: item 1 is a number, expected a string", sample(params { stop = { "a", 2 } }) },
  { "stop: item 1 is a string, expected a number", sample(params { stop = { 2, "a" } }) },
  { "stop: expected a list, got true", sample(params { stop = true }) },
  { "prompt: no tokens", sample { prompt = { chunks = {} } } },
  { "prompt: token 1 is 99999; the vocabulary has the ids 0 to",
    sample { prompt = prompt(5, 99999) } },
  { "chunk 1: image: the service takes text alone", sample { prompt = { chunks = { {
    type = "encoded_text", tokens = { 5 } }, { type = "image", data = "", format = "png" } } } } },
  { "prompt_alt_tokens_k: sampled alternatives", sample { prompt_alt_tokens_k = 2 } },
  { "record_stability_info: the service has no", sample { record_stability_info = true } },
  { "prompt_logprobs_last_n: expected prompt_logprobs", sample { prompt_logprobs_last_n = 2 } },
  { "prompt_logprobs_last_n: expected 1 to 4, got 5", sample { prompt_logprobs = true,
    prompt_logprobs_last_n = 5 } },
  { "shape [3, 1], expected [4,", sample { target_prompt_logprobs = { data = { 1, 2, 3 },
    dtype = "int64", shape = { 3, 1 } } } },
  { "user: no session gone", sample { sampling_session_id = "gone" } },
  { "expected a sampling_session_id, model_path or base_model",
    sample { sampling_session_id = system.null } },
  { "max_tokens: expected", sample(params { max_tokens = -1 }) },
}

-- Runs the jobs; those from `first_later` on come while the others run.
local function run(first_later)
  later, answered, failed = {}, {}, {}
  local jobs, all = {}, {}
  for i, request in ipairs(good) do all[#all + 1] = job(i, request) end
  for i, each in ipairs(bad) do
    table.insert(all, math.min(2 * i, #all + 1), job(100 + i, each[2]))
  end
  for i, each in ipairs(all) do
    if i < first_later then
      jobs[#jobs + 1] = each
    elseif mesh:rank() == 0 then
      later[#later + 1] = each
    end
  end
  routes_sampling.run(service, jobs)
  if mesh:rank() ~= 0 then return end
  assert(#later == 0)
  for i, each in ipairs(bad) do
    local message = failed[100 + i]
    assert(message and message:find(each[1], 1, true), each[1] .. ": " .. tostring(message))
    assert(message:find "^user: ", message)
    failed[100 + i] = nil
  end
  for i = 1, #good do assert(answered[i], i .. ": " .. tostring(failed[i])) end
  return answered
end

local function text(value) return system.json_encode(value) end

local first = run(1000)
for _, first_later in ipairs { 2, 8 } do
  local again = run(first_later)
  if first then messages.same(again, first, 1e-5) end
end
if not first then return end

local function ids(i, a) return text(first[i].sequences[a].tokens) end
assert(ids(1, 1) == ids(2, 1) and ids(1, 2) == ids(2, 2) and ids(1, 3) == ids(2, 3))
assert(ids(1, 1) ~= ids(1, 2) and ids(1, 1) ~= ids(3, 1) and ids(4, 1) ~= ids(5, 1))
messages.same(first[8], first[1], 1e-6)
messages.same(first[15], first[16], 1e-6)
assert(first[1].sequences[1].stop_reason == 1 and #first[1].sequences[1].tokens == 6)
assert(#first[1].sequences[1].logprobs == 6 and not first[1].prompt_logprobs)

-- Prompt log-probs: all but the first token, or only the last.
local all, last = first[6].prompt_logprobs, first[7].prompt_logprobs
assert(#all == 5 and #last == 5 and all[1] ~= all[1])
for t = 1, 5 do
  if t <= 3 then assert(last[t] ~= last[t]) else assert(math.abs(last[t] - all[t]) < 1e-6) end
  assert(t == 1 or all[t] < 0)
end
local top = first[7].topk_prompt_logprobs
assert(top.k == 3 and top.length == 5 and top.logprobs[1] == -99999 and top.ids[1] == 0)
for t = 4, 5 do
  for k = 1, 3 do
    assert(k == 1 or top.logprobs[3 * t - 3 + k] <= top.logprobs[3 * t - 4 + k])
    if top.ids[3 * t - 3 + k] == 4 + t then assert(top.logprobs[3 * t - 3 + k] == last[t]) end
  end
end
local one = first[7].sequences[1]
assert(#one.tokens == 1 and one.topk.ids[1] == one.tokens[1] and one.topk.k == 2)
assert(one.topk.logprobs[1] == one.logprobs[1])

-- Ends: the context, a text.
local context = checkpoint:max_position_embeddings()
local whole = first[9].sequences[1]
local function ends(tokens)
  for _, id in ipairs(require("moonring.serve.end_tokens").of(base)) do
    if tokens[#tokens] == id then return true end
  end
  return false
end
assert(whole.stop_reason == 1 and #whole.tokens == context - 5 + 1
  or whole.stop_reason == 0 and ends(whole.tokens))
for i, stops in pairs { [10] = { "a" }, [11] = { "a", "e" } } do
  local made = first[i].sequences[1]
  local words, found = tokenizer:decode(made.tokens), false
  for _, stop in ipairs(stops) do found = found or words:find(stop, 1, true) ~= nil end
  assert(made.stop_reason == 0 and (found or ends(made.tokens)), words)
  local before = { unpack(made.tokens, 1, #made.tokens - 1) }
  for _, stop in ipairs(stops) do assert(not tokenizer:decode(before):find(stop, 1, true)) end
end

-- Targets, dense and sparse.
local dense, sparse = first[12].target_prompt_logprobs, first[13].target_prompt_logprobs
assert(text(dense.shape) == "[4,2]" and text(sparse.shape) == "[4,2]")
for t = 2, 5 do
  assert(math.abs(dense.data[2 * t - 3] - first[12].prompt_logprobs[t]) < 1e-6)
end
assert(dense.data[2] == 0 and dense.data[8] == 0 and dense.data[4] < 0)
assert(sparse.data[1] == dense.data[1] and sparse.data[4] == dense.data[4] and sparse.data[3] == 0)
assert(#first[14].sequences == 2 and #first[14].prompt_logprobs == 40)
for _, each in pairs(first) do messages.without_nan(each) end
print(text(first))
