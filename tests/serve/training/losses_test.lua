--- Losses of moonring.serve in fp64: values by closed forms of the log-probs that are returned,
-- gradients by finite differences along random directions.
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local training_service = require "training_service"
local datum = training_service.datum

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. arg[3],
  "fp64=true", "micro_batch_tokens=12" }
local BASE = service.bases:names()[1]

local function near(what, got, wanted, tolerance)
  local apart = math.abs(got - wanted) / math.max(math.abs(wanted), 1e-3)
  if not (apart <= tolerance) then
    error(("%s: %.15g, expected %.15g: apart %.2g"):format(what, got, wanted, apart), 0)
  end
end

-- Datums whose lp - q is about 0, so that ratios are below, inside and above the clip ranges. A is
-- of both signs and 0, w too.
local TOKENS = { { 5, 6, 7, 8 }, { 11 }, { 20, 21, 22, 23, 24, 25, 26, 27, 28 } }
local TARGETS = { { 6, 7, 100, 0 }, { 12 }, { 3, 1, 4, 1, 5, 9, 2, 6, 5 } }

local function data_of(names, at)
  local list, n = {}, 0
  for d, tokens in ipairs(TOKENS) do
    local given = { tokens = tokens, target_tokens = TARGETS[d] }
    for _, name in ipairs(names) do given[name] = {} end
    for i = 1, #tokens do
      n = n + 1
      for _, name in ipairs(names) do
        local spread = (n * 7 % 11 - 5) / 8
        if name == "logprobs" then given[name][i] = at[d][{ i - 1 }]:item() - spread
        elseif name == "advantages" then given[name][i] = (n * 5 % 7 - 3) / 2
        else given[name][i] = (n * 3 % 5 - 1.5) / 3 end
      end
    end
    list[d] = datum(given)
  end
  return list
end

-- The closed forms, number by number.
local FORMS = {
  cross_entropy = function(lp, w) return -w.weights * lp end,
  importance_sampling = function(lp, w) return -math.exp(lp - w.logprobs) * w.advantages end,
  ppo = function(lp, w, c)
    local r, a = math.exp(lp - w.logprobs), w.advantages
    return -math.min(r * a, math.min(math.max(r, c.clip_low_threshold), c.clip_high_threshold) * a)
  end,
  cispo = function(lp, w, c)
    local r = math.exp(lp - w.logprobs)
    return -math.min(math.max(r, c.clip_low_threshold), c.clip_high_threshold) * lp * w.advantages
  end,
  dro = function(lp, w, c)
    return -(lp * w.advantages - c.beta / 2 * (lp - w.logprobs) ^ 2)
  end,
}

local CASES = {
  { "cross_entropy", { "weights" }, {} },
  { "importance_sampling", { "logprobs", "advantages" }, {} },
  { "ppo", { "logprobs", "advantages" }, { clip_low_threshold = 0.8, clip_high_threshold = 1.2 } },
  { "ppo", { "logprobs", "advantages" }, { clip_low_threshold = 0.9, clip_high_threshold = 1.5 },
    true },
  { "cispo", { "logprobs", "advantages" }, { clip_low_threshold = 0, clip_high_threshold = 4 } },
  { "cispo", { "logprobs", "advantages" }, { clip_low_threshold = 0.9,
    clip_high_threshold = 1.1 }, true },
  { "dro", { "logprobs", "advantages" }, { beta = 0.05 } },
  { "dro", { "logprobs", "advantages" }, { beta = 0.7 }, true },
}

local function directions(model, seed)
  local found = {}
  for i, each in ipairs(model:parameters():list()) do
    found[each:name()] = moonring.randn(each:shape(), { dtype = "fp64",
      seed = seed * 1000 + i }) * 0.02
  end
  return found
end

local function move(model, along, size)
  for _, each in ipairs(model:parameters():list()) do
    each:copy_(each:weight() + along[each:name()] * size)
  end
end

-- The gradient along a direction, as it was added to the parameters.
local function slope(model, along)
  local sum = 0
  for _, each in ipairs(model:parameters():list()) do
    local gradient = each:gradient()
    if gradient then sum = sum + (gradient * along[each:name()]):sum():item() end
  end
  return sum
end

-- cispo stops the gradient at its ratio: its derivative is that of the sum with the ratio held.
local function value_of(trained, case, data, held)
  local lps, metrics = trained:pass { data = data, loss_fn = case[1],
    loss_fn_config = case[4] and case[3] or {}, forward_only = true }
  if case[1] ~= "cispo" then return metrics["loss:sum"], lps end
  local sum = 0
  for d, lp in ipairs(lps) do
    sum = sum - (held[d] * lp * data[d].inputs.advantages:to "fp64"):sum():item()
  end
  return sum, lps
end

local function check(trained, case)
  local at = trained:pass { data = data_of({}, nil), loss_fn = "cross_entropy",
    forward_only = true }
  local data = data_of(case[2], at)
  local config = case[4] and case[3] or {}
  local lps, metrics = trained:pass { data = data, loss_fn = case[1], loss_fn_config = config }
  local sum, held = 0, {}
  for d, lp in ipairs(lps) do
    assert(lp:equal(at[d]), "log-probs of forward and forward_backward differ")
    for i = 0, lp:numel() - 1 do
      local of = {}
      for _, name in ipairs(case[2]) do of[name] = data[d].inputs[name][{ i }]:item() end
      sum = sum + FORMS[case[1]](lp[{ i }]:item(), of, case[3])
    end
    if case[1] == "cispo" then
      held[d] = (lp - data[d].inputs.logprobs:to "fp64"):exp():clamp(case[3].clip_low_threshold,
        case[3].clip_high_threshold)
    end
  end
  near(case[1] .. ": loss", metrics["loss:sum"], sum, 1e-12)
  for seed = 1, 2 do
    local along, h = directions(trained.model, seed), 1e-5
    local exact = slope(trained.model, along)
    move(trained.model, along, h)
    local up = value_of(trained, case, data, held)
    move(trained.model, along, -2 * h)
    local down = value_of(trained, case, data, held)
    move(trained.model, along, h)
    near(case[1] .. ": gradient", exact, (up - down) / (2 * h), 2e-7)
  end
  trained.model:parameters():clear_gradients()
end

for number, rank in ipairs { 4, 0 } do
  service:run("create_model", { session_id = "S", model_seq_id = number, base_model = BASE,
    lora_config = { rank = rank } })
  local trained = service.models["S:train:" .. number]
  if rank > 0 then move(trained.model, directions(trained.model, 9), 1) end -- B is not 0 any more
  for _, case in ipairs(CASES) do check(trained, case) end
end

-- Weights that are absent are 1; a call is the sum of its parts; a later call adds.
local trained = service.models["S:train:1"]
local whole = data_of({ "weights" }, nil)
local function gradients() return trained.model:parameters():take_gradients() end
trained:pass { data = whole, loss_fn = "cross_entropy" }
local once = gradients()
for _, each in ipairs(whole) do trained:pass { data = { each }, loss_fn = "cross_entropy" } end
for name, each in pairs(gradients()) do
  near("in parts: " .. name, (each - once[name]):abs():max():item() + 1, 1, 1e-13)
end
local _, plain = trained:pass { data = data_of({}, nil), loss_fn = "cross_entropy",
  forward_only = true }
assert(next(gradients()) == nil, "forward has made a gradient")
assert(plain["weights:sum"] == 14, "absent weights are not 1")

-- K candidates at a position are scored and weighted like K datums of one each; others in the call
-- may have another K, or one dim.
local list = data_of({ "weights" }, nil)
local three, parts = { list[1], list[2] }, {}
three[3] = datum { tokens = TOKENS[3], target_tokens = {}, weights = {} }
local columns = { {}, {}, {} }
for i, target in ipairs(TARGETS[3]) do
  for k = 1, 3 do
    columns[k][i] = (target * k + 5 * i) % 600
  end
end
for k = 1, 3 do
  parts[k] = datum { tokens = TOKENS[3], target_tokens = columns[k], weights = columns[k] }
  parts[k].inputs.weights = parts[k].inputs.weights / 300 - 1
end
for _, name in ipairs { "target_tokens", "weights" } do
  three[3].inputs[name] = moonring.ops.stack({ parts[1].inputs[name], parts[2].inputs[name],
    parts[3].inputs[name] }, 1)
end
three[2].inputs.target_tokens = three[2].inputs.target_tokens:unsqueeze(1)
three[2].inputs.weights = three[2].inputs.weights:unsqueeze(1)
local lps, metrics = trained:pass { data = three, loss_fn = "cross_entropy" }
local together = gradients()
local apart, of_parts = trained:pass { data = { list[1], list[2], parts[1], parts[2], parts[3] },
  loss_fn = "cross_entropy" }
assert(table.concat(lps[3]:shape(), " ") == "9 3" and table.concat(lps[2]:shape(), " ") == "1 1")
assert(#lps[1]:shape() == 1)
for k = 1, 3 do
  near("candidate", (lps[3][{ {}, k - 1 }] - apart[2 + k]):abs():max():item() + 1, 1, 1e-13)
end
near("candidates: loss", metrics["loss:sum"], of_parts["loss:sum"], 1e-12)
assert(metrics["targets:sum"] == 4 + 1 + 27)
for name, each in pairs(gradients()) do
  near("candidates: " .. name, (each - together[name]):abs():max():item() + 1, 1, 1e-12)
end
print "ok"
