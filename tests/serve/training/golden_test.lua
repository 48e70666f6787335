--- Ten steps with all losses, beside those of PyTorch and PEFT (tests/golden/serve).
-- golden_test.lua FIXTURES MODEL FOLDER GOLDEN ADAPTER [key=value...]
package.path = arg[1] .. "/?.lua;" .. package.path
local moonring = require "moonring"
local trained_models = require "moonring.serve.trained"
local training_service = require "training_service"

local service = training_service.open { "model_name_or_path=" .. arg[2], "output_dir=" .. arg[3],
  unpack(arg, 6) }
local golden = moonring.system.json_decode(moonring.system.read(arg[4]))
local TOLERANCE = service.config.fp64 and 1e-10 or 2e-5 -- the steps magnify the rounding of fp32

local worst = 0
local function near(what, got, wanted)
  local apart = math.abs(got - wanted) / math.max(math.abs(wanted), 1)
  worst = math.max(worst, apart)
  assert(apart <= TOLERANCE, ("%s: %.15g, PyTorch %.15g"):format(what, got, wanted))
end

local function data_of(step, loss)
  local list = {}
  for d, given in ipairs(step.data) do
    local own = { tokens = given.tokens, target_tokens = given.target_tokens }
    local names = loss == "cross_entropy" and { "weights" } or { "logprobs", "advantages" }
    for _, name in ipairs(names) do own[name] = given[name] end
    list[d] = training_service.datum(own)
  end
  return list
end

local base = service.bases:open(service.bases:names()[1])
local models = { adapter = moonring.model.adapt(base.model, { path = arg[5] }),
  whole = base:whole() }
for kind, model in pairs(models) do
  local id = kind == "adapter" and "S:train:1" or "S:train:0"
  local recipe = { base_model = base.name, rank = kind == "adapter" and 4 or 0 }
  service.models[id] = trained_models.new(service, id, base, recipe, model)
  for k, wanted in ipairs(golden[kind]) do
    local step = golden.steps[k]
    local lps, metrics = service.models[id]:pass { data = data_of(step, wanted.loss_fn),
      loss_fn = wanted.loss_fn }
    for d, lp in ipairs(lps) do
      for i, value in ipairs(lp:tolist()) do
        near(("%s: step %d: log-prob"):format(kind, k), value, wanted.log_probs[d][i])
      end
    end
    near(("%s: step %d: loss"):format(kind, k), metrics["loss:sum"], wanted.loss)
    local made = service:run("optim_step", { model_id = id, seq_id = k,
      adam_params = step.adam_params })
    near(("%s: step %d: norm"):format(kind, k), made.metrics["grad_norm:mean"], wanted.norm)
  end
end
if service.mesh:rank() == 0 then print(("worst %.3g"):format(worst)) end
