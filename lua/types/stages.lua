---@meta moonring.stages

--- What each stage of training learns, out of its configuration: the objective, the references that it compares with, what is random.
---@class moonring.stages
local stages = {}

---@class moonring.ReferenceParts
---@field checkpoint moonring.Checkpoint
---@field learner moonring.Model
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field datasets table<string, moonring.Dataset | moonring.Stream> by name, as stages.datasets gives them

--- "eval", or "eval_NAME" of several.
---@param one moonring.NamedDataset
---@return string
function stages.eval_name(one) end

--- All data sets by name: train, and those to evaluate on.
---@param train moonring.Dataset | moonring.Stream
---@param evals? moonring.NamedDataset[]
---@return table<string, moonring.Dataset | moonring.Stream>
function stages.datasets(train, evals) end

--- The references of data sets, by ref_model and precompute_ref_log_probs. Collective over all ranks.
---@param c moonring.Configuration
---@param parts moonring.ReferenceParts
---@return table<string, moonring.Reference>
function stages.references(c, parts) end

--- What the stage counts and sums.
---@param c moonring.Configuration
---@param learner moonring.Model
---@return moonring.Objective
function stages.objective(c, learner) end

--- Seed and strength of what is random in training, or nil where nothing is.
---@param c moonring.Configuration
---@return table?
function stages.noise(c) end

--- What balances a mixture of experts: where moe_aux_loss_coef is not 0, the stage is pt or sft, and the model has experts; else nil.
---@param c moonring.Configuration
---@param learner moonring.Model
---@return moonring.Router?
function stages.router(c, learner) end

return stages
