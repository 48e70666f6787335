--- What each stage of training learns, out of its configuration: the objective, the references that it compares with, what is random.
local objective = require "moonring.run.objective"
local models = require "moonring.model.policy"
local reference = require "moonring.run.reference"
local router = require "moonring.run.router"
local run = require "moonring.run"
local configured_template = require "moonring.data.configured_template"

local stages = {}

--- What the stage counts and sums.
function stages.objective(c, learner)
  if c.stage == "dpo" then
    return objective.preference { loss = c.pref_loss, beta = c.pref_beta, ftx = c.pref_ftx, simpo_gamma = c.simpo_gamma, label_smoothing = c.dpo_label_smoothing,
      bco_weight = c.pref_bco_weight, ld_alpha = c.ld_alpha }
  elseif c.stage == "kto" then
    return objective.kto { beta = c.pref_beta, chosen_weight = c.kto_chosen_weight, rejected_weight = c.kto_rejected_weight, ftx = c.pref_ftx }
  elseif c.stage == "rm" then
    return objective.reward { value_head = learner:value_head { seed = c.seed } }
  end
  return objective.sft { count = c.count, label_smoothing = c.label_smoothing_factor > 0 and c.label_smoothing_factor or nil, dft = c.use_dft_loss, eaft = c.use_eaft_loss,
    eaft_alpha = c.eaft_alpha }
end

--- What a data set of an evaluation ({ name, dataset }) is called among all: "eval", or "eval_NAME" of several.
function stages.eval_name(one) return one.name and "eval_" .. one.name or "eval" end

--- All data sets by name: train, and those of `evals`, a list of { name, dataset } or nil.
function stages.datasets(train, evals)
  local named = { train = train }
  for _, one in ipairs(evals or {}) do named[stages.eval_name(one)] = one.dataset end
  return named
end

--- The reference of a data set (moonring.reference): live, or precomputed into output_dir. `parts`: checkpoint, learner, attention, mesh, zero, datasets = { train, eval }.
-- Returns a list by data set; every rank must call it.
function stages.references(c, parts)
  local of = models.reference(c, parts.checkpoint, parts.learner, parts.zero)
  local found = {}
  if not c.precompute_ref_log_probs then
    for name in pairs(parts.datasets) do found[name] = reference.live(of) end
    return found
  end
  local digest = of:digest()
  local names = {}
  for name in pairs(parts.datasets) do names[#names + 1] = name end
  table.sort(names, function(a, b) return a ~= b and (a == "train" or (b ~= "train" and a < b)) end) -- the same order on every rank
  for _, name in ipairs(names) do
    local dataset = parts.datasets[name]
    found[name] = reference.precomputed {
      path = c.output_dir .. (name == "train" and "/reference_log_probs.json" or "/reference_log_probs." .. name .. ".json"),
      key = { data = dataset:digest(), template = configured_template.name(c), cutoff_len = c.cutoff_len, reference = digest, precision = run.precision(c), stage = c.stage,
        pref_loss = c.stage == "dpo" and c.pref_loss or "none", ld_alpha = c.ld_alpha or "none" },
      overwrite = c.overwrite_cache, make_model = function() return of end, dataset = dataset, attention = parts.attention, mesh = parts.mesh,
      make_steps = function() return run.epoch(c, dataset, parts.mesh, name == "train" and "train" or "eval") end, documents = 2, lockstep = parts.zero and parts.zero:lockstep(),
    }
  end
  if c.ref_model then of:close() end -- the numbers are there; the model is not needed any more
  return found
end

--- Seed and strength of what is random in training, or nil where nothing is.
function stages.noise(c)
  local drops = models.drops(c) and (c.lora_dropout > 0 and c.finetuning_type == "lora" or c.stage == "rm")
  if not drops and not c.neftune_noise_alpha then return nil end
  return { seed = c.seed, neftune_alpha = c.neftune_noise_alpha }
end

--- What balances a mixture of experts, or nil: with moe_aux_loss_coef, in pt and sft, as LLaMA-Factory.
function stages.router(c, learner)
  if (c.moe_aux_loss_coef or 0) == 0 or (c.stage ~= "pt" and c.stage ~= "sft") or learner:experts() == 0 then return nil end
  return router.new { model = learner, coefficient = c.moe_aux_loss_coef, size = c.per_device_train_batch_size }
end

return stages
