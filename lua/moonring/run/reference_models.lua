--- The reference models of a run, one per data set: they compute log-probs during training, or read
-- those that were stored in output_dir before (precompute_ref_log_probs).
local configured_template = require "moonring.data.configured_template"
local compute = require "moonring.choices.compute"
local batching = require "moonring.choices.batching"
local kept_reference = require "moonring.run.kept_reference"
local phases = require "moonring.report.phases"
local policy = require "moonring.model.policy"
local reference_words = require "moonring.run.reference_words"
local reference = require "moonring.run.reference"
local stages = require "moonring.choices.stages"

---@class moonring.reference_models
local reference_models = {}

--- The components from which the references of a run are made.
---@class moonring.ReferenceParts
---@field checkpoint moonring.Checkpoint
---@field policy moonring.Model
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field zero? moonring.Zero
--- `datasets` by name: "train", and the names of the evaluation data sets.
---@field datasets table<string, moonring.Dataset | moonring.Stream>
---@field progress? moonring.Progress

-- The settings on which stored log-probs depend.
local function key_of(c, dataset, digest)
  local key = { data = dataset:digest(), template = configured_template.name(c),
    cutoff_len = c.cutoff_len, reference = digest, precision = compute.precision(c),
    stage = c.stage, pref_loss = "none", ld_alpha = "none" }
  for name, value in pairs(stages.of(c).depends(c)) do key[name] = value end
  return key
end

local function kept(c, parts, name, model, digest)
  local dataset, split = parts.datasets[name], name == "train" and "train" or "eval"
  local file = name == "train" and "/reference_log_probs.json"
    or "/reference_log_probs." .. name .. ".json"
  return kept_reference.open {
    path = c.output_dir .. file,
    key = key_of(c, dataset, digest),
    overwrite = c.overwrite_cache,
    make_model = function() return model end,
    make_steps = function() return batching.epoch(c, dataset, parts.mesh, split) end,
    dataset = dataset, attention = parts.attention, mesh = parts.mesh,
    documents = stages.of(c).documents,
    lockstep = parts.zero and parts.zero:lockstep(),
    progress = parts.progress,
  }
end

--- Opens the references of data sets, according to ref_model and precompute_ref_log_probs.
--- Collective over all ranks.
---@param c moonring.Configuration
---@param parts moonring.ReferenceParts
---@return table<string, moonring.Reference> by data set
function reference_models.open(c, parts)
  if c.do_train then c.notes[#c.notes + 1] = reference_words.of(c) end
  local model = phases.run(parts.progress, "loading the reference", nil, function()
    return policy.reference(c, parts.checkpoint, parts.policy, parts.zero)
  end)
  local found = {}
  if not c.precompute_ref_log_probs then
    for name in pairs(parts.datasets) do found[name] = reference.live(model) end
    return found
  end
  local digest = model:digest()
  local function add(name) found[name] = kept(c, parts, name, model, digest) end
  if parts.datasets.train then add "train" end -- first, as messages name one file
  for name in pairs(parts.datasets) do
    if name ~= "train" then add(name) end
  end
  if c.ref_model then model:close() end -- the log-probs are stored: the model is not needed
  return found
end

return reference_models
