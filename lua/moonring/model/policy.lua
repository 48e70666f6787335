--- Loads the models of a run: the model to inspect or to train, and the reference model.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local hub = require "moonring.hub"
local model = require "moonring.model"
local packing = require "moonring.model.packing"
local compute = require "moonring.choices.compute"
local expert_ranks = require "moonring.choices.expert_ranks"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"

---@class moonring.policy
local policy = {}

-- Kinds of rotary scaling with which documents may be longer than max_position_embeddings, since
-- config.json may state the length before scaling there.
local STRETCHED = { linear = true, dynamic = true, yarn = true }

-- A note for the log if examples may be longer than the model's context and there is no rotary
-- scaling; otherwise nil.
local function beyond_positions(c, checkpoint)
  local positions = checkpoint:max_position_embeddings()
  local stretched = c.rope_scaling or STRETCHED[checkpoint:rope_kind()]
  if stretched or c.cutoff_len <= positions then return nil end
  return ("cutoff_len: %d is beyond the model's %d positions, and its rotary embedding is not "
    .. "scaled: set rope_scaling"):format(c.cutoff_len, positions)
end

--- Downloads the models that the configuration names on a hub, unless they are cached. Call it
--- before the ranks are started, which then use the cache.
---@param c moonring.Configuration
function policy.fetch(c)
  local want = c.train_from_scratch and "fresh" or "model"
  if not c.model_name_or_path:find "^builtin:" then hub.locate(c.model_name_or_path, want, c) end
  if c.ref_model then
    local found = errors.of_key_instead("ref_model", "model_name_or_path", model.locate,
      c.ref_model, c)
    if not system.exists(found) then
      errors.fail("ref_model: no folder or file '", c.ref_model, "'")
    end
  end
  for _, paths in ipairs { c.adapter_name_or_path or {}, c.ref_model_adapters or {} } do
    model.adapters(paths, c)
  end
end

--- Opens the model's checkpoint, and scales its rotary embedding as rope_scaling says. Errors:
--- those of moonring.model.open. The notes are log lines about rotary scaling and about ignored
--- tensors.
---@param c moonring.Configuration
---@param cuts? boolean whether documents are cut at cutoff_len; default true
---@return moonring.Checkpoint
---@return string[] notes lines for the log
function policy.open(c, cuts)
  local notes = {}
  local checkpoint = c.train_from_scratch and model.open_fresh(c.model_name_or_path, c.seed, c)
    or model.open(c.model_name_or_path, c)
  expert_ranks.check_model(c, checkpoint)
  if checkpoint:name() ~= checkpoint:path() then
    notes[1] = ("model: %s is in %s"):format(checkpoint:name(), checkpoint:path())
  end
  if c.rope_scaling then
    notes[#notes + 1] = checkpoint:scale_rope(c.rope_scaling, c.cutoff_len)
  elseif checkpoint:rope_kind() ~= "default" then
    notes[#notes + 1] = "rotary embedding: " .. checkpoint:rope()
  end
  notes[#notes + 1] = cuts ~= false and beyond_positions(c, checkpoint) or nil
  if c.train_from_scratch then
    notes[#notes + 1] = ("train_from_scratch: the weights are made by %s/config.json and seed %d; "
      .. "no file of weights is read"):format(c.model_name_or_path, c.seed)
  end
  local extra = checkpoint:extra_weights()
  if #extra > 0 then
    notes[#notes + 1] = ("%d tensors in the model's files do not belong to it and were ignored: "
      .. "%s%s"):format(#extra, table.concat(extra, ", ", 1, math.min(3, #extra)), #extra > 3
      and ", ..." or "")
  end
  local carried = checkpoint:carried_weights()
  if #carried > 0 then
    notes[#notes + 1] = ("%d tensors beside the text model are not trained and are saved "
      .. "unchanged: %s%s"):format(#carried, table.concat(carried, ", ", 1, math.min(3, #carried)),
      #carried > 3 and ", ..." or "")
  end
  return checkpoint, notes
end

-- The options that all models of the run are loaded with. `zero` (trainer.zero) is given if the
-- weights may be sharded over ranks.
local function placement(c, zero)
  return { precision = compute.precision(c), recompute = compute.recompute(c),
    device = compute.device(c), tile_bytes = c.tile_mib * 2 ^ 20, tile_rows = c.tile_rows,
    logit_rows = c.logit_rows, residual_dtype = c.residual_dtype == "bf16" and "bf16" or nil,
    zero = zero, products = c.cpu_products ~= "auto" and c.cpu_products or nil }
end

-- The folder for offloaded activations of the policy; nil: they stay in memory.
local function activation_dir(c)
  if c.activation_offload ~= "disk" then return nil end
  local dir = c.activation_dir or c.output_dir
  system.make_folder(dir)
  return dir
end

-- The adapters that are merged into the weights, and the adapter whose training continues.
local function adapters(c)
  local merged, resumed = model.adapters(c.adapter_name_or_path, c) or {}, nil
  if adapter_kinds.has(c) and not c.create_new_adapter then
    resumed = table.remove(merged)
  end
  return merged, resumed
end

-- The modules that are fully trained in addition to an adapter. With resize_vocab the default is
-- the embedding and the head, as in LLaMA-Factory.
local function trained_whole(c, checkpoint)
  if c.additional_target or not c.resize_vocab then return c.additional_target end
  local modules = checkpoint:vocabulary_modules()
  c.notes[#c.notes + 1] = "resize_vocab: the adapter trains " .. table.concat(modules, " and ")
    .. " whole; to change that set additional_target"
  return modules
end

local function new_adapter(c, checkpoint, base)
  if c.finetuning_type == "oft" then
    return model.adapt(base, { oft_rank = c.oft_rank, oft_block_size = c.oft_block_size,
      target = adapter_kinds.target(c), additional_target = trained_whole(c, checkpoint),
      seed = c.seed })
  end
  return model.adapt(base, {
    rank = c.lora_rank,
    alpha = c.lora_alpha or 2 * c.lora_rank,
    dropout = stages.of(c).drops and c.lora_dropout or 0,
    target = adapter_kinds.target(c),
    additional_target = trained_whole(c, checkpoint),
    use_rslora = c.use_rslora,
    use_dora = c.use_dora,
    pissa_iter = c.pissa_init and c.pissa_iter or nil,
    seed = c.seed,
  })
end

-- Adds an adapter to the base. `path`: an adapter whose training continues; nil: a new one.
local function with_adapter(c, checkpoint, base, path)
  if not path then return new_adapter(c, checkpoint, base) end
  local dropout = stages.of(c).drops and c.lora_dropout or 0
  local adapted = model.adapt(base, { path = path,
    dropout = c.finetuning_type == "lora" and dropout or 0 })
  local fixed = adapted:fixed_parts()
  if #fixed > 0 then
    c.notes[#c.notes + 1] = ("adapter %s: %s stay unchanged, and are saved again; its other "
      .. "weights are trained further. create_new_adapter: true merges all of it and trains a new "
      .. "one"):format(path, table.concat(fixed, ", "))
  end
  return adapted
end

-- Refuses a loaded adapter that does not fit the configuration's keys.
local function check_adapter(c, adapted)
  if c.pissa_convert and not adapted:has_first_values() then
    config.fail "pissa_convert: expected an adapter that began as PiSSA's (pissa_init)"
  end
  return adapted
end

--- Loads the model for inference, with the precision and recompute of the configuration. Adapters
--- are merged into the weights, unless the base is quantized: then its adapter stays separate.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param zero? moonring.Zero shards the weights over its ranks
---@return moonring.Model
function policy.load(c, checkpoint, zero)
  local options, code = placement(c, zero), packing.of(c)
  if code then
    local base, path = model.load(checkpoint, packing.apply(c, options, code)), packing.adapter(c)
    if not path then return base end
    return model.adapt(base, { path = model.adapters({ path }, c)[1], dropout = 0 })
  end
  options.adapters = model.adapters(c.adapter_name_or_path, c)
  return model.load(checkpoint, options)
end

--- Loads a frozen model over which adapters can be made (moonring.model.adapt). Adapters of the
--- configuration are merged into the weights; over a quantized base they stay separate.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Model
function policy.frozen(c, checkpoint)
  if packing.of(c) then return policy.load(c, checkpoint) end
  local options = placement(c)
  options.frozen, options.adapters = true, model.adapters(c.adapter_name_or_path, c)
  return model.load(checkpoint, options)
end

--- Loads a model all of whose weights are trained, whatever finetuning_type says. Adapters of the
--- configuration are merged into the weights.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Model
function policy.whole(c, checkpoint)
  local options = placement(c)
  options.adapters = model.adapters(c.adapter_name_or_path, c)
  return model.load(checkpoint, options)
end

--- Loads the model for training. By finetuning_type, all weights are trainable, or those of an
--- adapter, or those of some layers.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param zero? moonring.Zero shards the weights over its ranks in stage 3
---@param from? string the checkpoint that the run resumes from
---@param work? moonring.WorkCount counts weights as they are read
---@return moonring.Model
function policy.learning(c, checkpoint, zero, from, work)
  local options = placement(c, zero)
  options.work = work
  -- With recompute: auto, plan/recompute.lua has chosen these numbers of layers.
  options.whole_layers, options.selective_layers = c.whole_layers, c.selective_layers
  options.activation_offload, options.activation_dir = c.activation_offload, activation_dir(c)
  local resumed
  options.adapters, resumed = adapters(c)
  if adapter_kinds.has(c) then
    options.frozen = true
    packing.apply(c, options, packing.of(c))
    -- A resumed run reads PiSSA's initial values from its checkpoint, since they were computed when
    -- the run began.
    if c.pissa_init and not resumed then resumed = from end
    local base = model.load(checkpoint, options)
    return check_adapter(c, with_adapter(c, checkpoint, base, resumed))
  end
  if c.finetuning_type == "freeze" then
    options.trainable_layers, options.extra_modules = c.freeze_trainable_layers,
      c.freeze_extra_modules
    options.trainable_modules = c.freeze_trainable_modules == "all" and { "all" }
      or c.freeze_trainable_modules
  end
  return model.load(checkpoint, options)
end

--- Loads the policy from a checkpoint of this run.
---@param c moonring.Configuration
---@param current moonring.Model
---@param folder string
---@param zero? moonring.Zero
---@return moonring.Model
function policy.reload(c, current, folder, zero)
  if adapter_kinds.has(c) then return model.adapt(current:base(), { path = folder }) end
  return model.load(model.open(folder), placement(c, zero))
end

-- Loads a frozen reference model: ref_model, or the policy's initial model.
local function frozen_reference(c, checkpoint, zero)
  local options = placement(c, zero)
  options.frozen = true
  if not c.ref_model then
    options.adapters = adapters(c)
    return model.load(checkpoint, options)
  end
  local other = model.open(c.ref_model, c)
  -- The reference grows like the policy, because both vocabularies must have the same size.
  if c.resize_vocab then other:grow_vocabulary(checkpoint:vocab_size(), c.seed) end
  if other:vocab_size() ~= checkpoint:vocab_size() then
    config.fail("ref_model: ", c.ref_model, " has a vocabulary of ", other:vocab_size(),
      " ids, the model ", checkpoint:vocab_size())
  end
  local code = packing.of_reference(c)
  if code and c.ref_model_adapters then
    config.fail("ref_model_quantization_bit: nothing is merged into packed weights; leave "
      .. "ref_model_adapters out")
  end
  options.adapters = model.adapters(c.ref_model_adapters, c)
  return model.load(other, packing.apply(c, options, code))
end

--- The reference model of a policy. Call it before the first step. It is ref_model; otherwise the
--- base model without the adapter (LoRA); otherwise the policy itself, if log-probs are computed
--- before the training; otherwise a frozen copy.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param current moonring.Model
---@param zero? moonring.Zero
---@return moonring.Model
function policy.reference(c, checkpoint, current, zero)
  if not c.ref_model and adapter_kinds.has(c) then return current:base() end
  if not c.ref_model and c.precompute_ref_log_probs then return current end
  return frozen_reference(c, checkpoint, zero)
end

return policy
