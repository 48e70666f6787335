--- Three steps of training with any number of ranks. On one rank the log-probs, gradients and
-- weights are written to a file; on several they are compared with it.
-- layouts_test.lua FIXTURES MODEL FOLDER REFERENCE TOLERANCE [key=value...]
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local training_service = require "training_service"
local REFERENCE, TOLERANCE = arg[4], tonumber(arg[5])

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. arg[3],
  "micro_batch_tokens=80", unpack(arg, 6) }
local BASE = service.bases:names()[1]
local IS_FP64 = service.config.fp64
local made = {}

-- Datums of 1 to 150 tokens: sp cuts the longer ones, and some ranks have none of the shorter.
local function data_of(lengths, names)
  local list = {}
  for d, length in ipairs(lengths) do
    local given = { tokens = {}, target_tokens = {} }
    for _, name in ipairs(names) do given[name] = {} end
    for i = 1, length do
      given.tokens[i], given.target_tokens[i] = (d * 31 + i * 17) % 600, (d * 13 + i * 29) % 600
      for k, name in ipairs(names) do
        given[name][i] = name == "logprobs" and -6.5 - (i % 5) / 10 or (i * (k + 4) % 7 - 2.5) / 3
      end
    end
    list[d] = training_service.datum(given)
  end
  return list
end

-- Gradients of all ranks, summed.
local function gradients_of(model)
  local sums, mesh = {}, service.mesh
  for _, each in ipairs(model:parameters():list()) do
    local own = each:gradient() or each:weight():zeros_like()
    sums[each:name()] = mesh:sum_dp(mesh:sum_sp(own))
  end
  return sums
end

local function step(id, number)
  local function pass(loss, lengths, names)
    local trained = service.models[id]
    local lps, metrics = trained:pass { data = data_of(lengths, names), loss_fn = loss }
    for d, each in ipairs(lps) do made[("%s/%d/%s/%d"):format(id, number, loss, d)] = each end
    made[("%s/%d/%s/loss"):format(id, number, loss)] =
      moonring.tensor({ metrics["loss:sum"] }, "fp64")
  end
  pass("cross_entropy", { 1, 150, 33, 64, 7 }, { "weights" })
  pass("ppo", { 90, 2, 45 }, { "logprobs", "advantages" })
  for name, each in pairs(gradients_of(service.models[id].model)) do
    if number == 1 then made[("%s/gradient/%s"):format(id, name)] = each end
  end
  local taken = service:run("optim_step", { model_id = id, seq_id = number,
    adam_params = { learning_rate = IS_FP64 and 1e-2 or 1e-4, eps = 1e-8, weight_decay = 0.1,
      grad_clip_norm = 0.5 } })
  made[("%s/%d/norm"):format(id, number)] =
    moonring.tensor({ taken.metrics["grad_norm:mean"] }, "fp64")
end

for number, rank in ipairs { 4, 0 } do
  service:run("create_model", { session_id = "S", model_seq_id = number, base_model = BASE,
    lora_config = { rank = rank, seed = 3 } })
  local id = "S:train:" .. number
  for k = 1, 3 do step(id, k) end
  -- In fp32 AdamW magnifies the rounding of gradients that are nearly 0.
  for _, each in ipairs(IS_FP64 and service.models[id].model:parameters():list() or {}) do
    made[id .. "/" .. each:name()] = each:weight():clone()
  end
end

if service.mesh:size() == 1 then
  moonring.safetensors.write(REFERENCE, made)
  return print "written"
end
local wanted, worst, where = moonring.safetensors.read(REFERENCE), 0, ""
for name, each in pairs(made) do
  local other = wanted[name]
  assert(other, name .. " is not in the reference")
  local apart = ((each - other):norm() / (other:norm() + 1e-30)):item()
  if not (apart <= worst) then worst, where = apart, name end
end
for name in pairs(wanted) do assert(made[name], name .. " is missing") end
if service.mesh:rank() == 0 then print(("worst %.3g in %s"):format(worst, where)) end
assert(worst <= TOLERANCE, ("apart %g in %s"):format(worst, where))
