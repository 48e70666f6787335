---@meta moonring.models

--- The models of a run, out of its configuration: to look at, to train, to compare with.
---@class moonring.models
local models = {}

--- The checkpoint, its rotary embedding stretched where rope_scaling asks for it.
--- Errors: as moonring.model.open's.
---@param c moonring.Configuration
---@return moonring.Checkpoint
---@return string[] notes lines for the log: what turns queries and keys otherwise than plainly, or why rope_scaling changed nothing; tensors left out
function models.open(c) end

--- By the precision, recompute and disable_gradient_checkpointing; adapters are merged.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.Model
function models.load(c, checkpoint) end

--- Whether dropout acts in this stage: not in dpo and kto.
---@param c moonring.Configuration
---@return boolean
function models.drops(c) end

--- The model with what of it is to learn, by finetuning_type and its keys.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param zero? moonring.Zero
---@return moonring.Model
function models.learner(c, checkpoint, zero) end

--- The learner as a checkpoint of this run has it.
---@param c moonring.Configuration
---@param learner moonring.Model
---@param folder string
---@param zero? moonring.Zero
---@return moonring.Model
function models.reload(c, learner, folder, zero) end

--- The reference model of a learner, before the first step: ref_model; else LoRA's without its adapter, or a frozen copy. Where the numbers are precomputed, the
--- learner itself before it learns.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param learner moonring.Model
---@param zero? moonring.Zero
---@return moonring.Model
function models.reference(c, checkpoint, learner, zero) end

return models
