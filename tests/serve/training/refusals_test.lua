--- Requests of training that are refused: each with a message that says what was expected, and
-- without any effect on the gradients of earlier calls, bit for bit.
-- refusals_test.lua FIXTURES MODEL FOLDER [key=value...]
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local training_service = require "training_service"
local datum, refused = training_service.datum, training_service.refused

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. arg[3],
  unpack(arg, 4) }
local BASE = service.bases:names()[1]
local id = service:create(0, 4)
local trained = service.models[id]
service:train(id, 1, 1) -- B is not 0 any more
service:backward(id, 2)
local before = training_service.gradients(trained.model)
local weights = training_service.weights(trained.model)

local GOOD = { tokens = { 5, 6, 7 }, target_tokens = { 6, 7, 8 } }
local POLICY = { tokens = { 5, 6, 7 }, target_tokens = { 6, 7, 8 }, logprobs = { -1, -2, -3 },
  advantages = { 1, 0, -1 } }

local function with(given, changes)
  local changed = {}
  for name, value in pairs(given) do changed[name] = value end
  for name, value in pairs(changes) do changed[name] = value or nil end
  return changed
end

-- A call with a good datum before the bad one.
local function call(loss, bad, config, good)
  return service:run("forward_backward", { model_id = id, loss_fn = loss, loss_fn_config = config,
    data = { datum(good or GOOD), bad and datum(bad) } })
end

local nan, inf = 0 / 0, math.huge
local INVALID = "INVALID_ARGUMENT"
for _, case in ipairs {
  { INVALID, "no loss 'cros_entropy' (did you mean 'cross_entropy'?)", "cros_entropy" },
  { "UNIMPLEMENTED", "importance_sampling", "stable_reinforce" },
  { "UNIMPLEMENTED", "gspo is not offered", "gspo" },
  { "UNIMPLEMENTED", "forward_backward_custom", "custom" },
  { INVALID, "cross_entropy has no 'beta'; it has none", "cross_entropy", nil, { beta = 1 } },
  { INVALID, "did you mean 'clip_low_threshold'", "ppo", nil, { clip_low_treshold = 1 } },
  { INVALID, "beta: expected a number, got 'x'", "dro", nil, { beta = "x" } },
  { INVALID, "beta: expected at least 0 and finite, got -1", "dro", nil, { beta = -1 } },
  { INVALID, "is above clip_high_threshold", "ppo", nil, { clip_low_threshold = 3 } },
  { INVALID, "datum 1: model_input: expected one token", "cross_entropy",
    { tokens = {}, target_tokens = {} } },
  { INVALID, "datum 1: model_input: position 2: id 675", "cross_entropy",
    with(GOOD, { tokens = { 1, 2, 675 } }) },
  { INVALID, "datum 1: target_tokens: position 0: id -100", "cross_entropy",
    with(GOOD, { target_tokens = { -100, 2, 3 } }) },
  { INVALID, "datum 1: target_tokens: expected one for each of the 3 tokens", "cross_entropy",
    with(GOOD, { target_tokens = { 1, 2 } }) },
  { INVALID, "target_tokens is missing", "cross_entropy", with(GOOD, { target_tokens = false }) },
  { INVALID, "datum 1: weights: expected the shape of target_tokens, [3]; got [2]",
    "cross_entropy", with(GOOD, { weights = { 1, 2 } }) },
  { INVALID, "datum 1: weights: position 1: nan", "cross_entropy",
    with(GOOD, { weights = { 1, nan, 2 } }) },
  { INVALID, "has no 'mask'; it has target_tokens, weights", "cross_entropy",
    with(GOOD, { mask = { 1, 1, 1 } }) },
  { INVALID, "has no 'weight' (did you mean 'weights'?)", "cross_entropy",
    with(GOOD, { weight = { 1, 1, 1 } }) },
  { INVALID, "logprobs is missing; ppo needs", "ppo", with(POLICY, { logprobs = false }), nil,
    POLICY },
  { INVALID, "datum 1: logprobs: position 0: -inf", "ppo",
    with(POLICY, { logprobs = { -inf, 0, 0 } }), nil, POLICY },
  { INVALID, "datum 1, position 2: the gradient of importance_sampling is not finite",
    "importance_sampling", with(POLICY, { logprobs = { -1, -1, -300 } }), nil, POLICY },
} do
  refused(case[1], case[2], call, unpack(case, 3, 6))
  assert(training_service.same(training_service.gradients(trained.model), before),
    "gradients have changed: " .. case[2])
end
refused(INVALID, "expected one datum at least", service.run, service, "forward_backward",
  { model_id = id, loss_fn = "cross_entropy", data = {} })

-- A model that computes NaN: the layer is named, and the gradients stay.
local broken = trained.model:parameters():list()[3]
broken:copy_(broken:weight() * nan)
for _, loss in ipairs { "cross_entropy" } do
  refused("INTERNAL", "first not finite after model.layers.0", call, loss, GOOD)
end
broken:copy_(weights[broken:name()])
assert(training_service.same(training_service.gradients(trained.model), before))

-- forward neither adds nor loses gradients.
service:run("forward", { model_id = id, loss_fn = "cross_entropy", data = { datum(GOOD) } })
assert(training_service.same(training_service.gradients(trained.model), before))

-- Numbers of the optimizer.
local function step(params, more)
  local request = { model_id = id, seq_id = 3, adam_params = params }
  for name, value in pairs(more or {}) do request[name] = value end
  return service:run("optim_step", request)
end
refused(INVALID, "unknown field 'learning_rat' (did you mean 'learning_rate'?)", step,
  { learning_rat = 1 })
refused(INVALID, "beta2: expected at least 0 and less than 1, got 1", step, { beta2 = 1 })
refused(INVALID, "learning_rate: expected a number, got 'x'", step, { learning_rate = "x" })
refused(INVALID, "eps: expected at least 0, and finite, got nan", step, { eps = nan })
refused("UNIMPLEMENTED", "dimuon", step, nil, { optimizer_params = { type = "dimuon" } })
assert(training_service.same(training_service.gradients(trained.model), before))
assert(training_service.same(training_service.weights(trained.model), weights))

-- Models.
local function create(lora, more)
  local request = { session_id = "S", model_seq_id = 9, base_model = BASE, lora_config = lora }
  for name, value in pairs(more or {}) do request[name] = value end
  return service:run("create_model", request)
end
refused("NOT_FOUND", "did you mean 'model'", create, {}, { base_model = "modle" })
refused(INVALID, "nothing would be trained", create, { train_attn = false, train_mlp = false,
  train_unembed = false })
refused(INVALID, "rank: expected 1 to", create, { rank = -1 })
refused(INVALID, "rank: expected an integer", create, { rank = 1.5 })
refused(INVALID, "unknown field 'ranks'", create, { ranks = 1 })
refused("UNIMPLEMENTED", "dimuon", create, {}, { optimizer_config = { type = "dimuon" } })
refused("ALREADY_EXISTS", "S:train:0", create, {}, { model_seq_id = 0 })
refused("NOT_FOUND", "no model S:train:8", service.run, service, "optim_step",
  { model_id = "S:train:8" })
refused(INVALID, "model_id: expected SESSION:train:NUMBER", service.run, service, "optim_step",
  { model_id = "../x" })
assert(#moonring.system.list(arg[3] .. "/weights") == 0)
if service.mesh:rank() == 0 then print "ok" end
