---@meta moonring.objective

--- What a step counts and sums, as tables that moonring.runtime drives. A script may pass one of
--- its own: level, count and loss are enough. Other names than those of moonring.Objective are
--- refused, but for those that begin with an underscore: they are the script's own.
---@class moonring.objective
local objective = {}

--- Refuses a table that is no objective, and returns one that is. runtime.new does so. Errors:
--- INVALID_ARGUMENT, with the nearest name.
---@param given moonring.Objective
---@return moonring.Objective
function objective.check(given) end

---@class moonring.Objective
---@field level "token" | "sequence" whether loss sees the log-probs of this rank's tokens and returns this rank's share of a sum, or sees those of documents, and its sum is the same on the ranks of an sp group
---@field count fun(batch: moonring.Batch): number what the batch adds to the divisor, from labels and lengths alone
---@field loss fun(batch: moonring.Batch, values: moonring.Tensor): moonring.Tensor | number, table<string, number[]>? the sum (0: nothing to add), and metrics: name -> { sum, count }
---@field statistics? string[] of objectives.log_prob; they are in batch.statistics
---@field label_smoothing? number of objectives.log_prob
---@field weights? fun(batch: moonring.Batch): moonring.Tensor of the tokens of the stream, by which a document's sum is made
---@field values? fun(batch: moonring.Batch, hidden: moonring.Tensor, noise: table?): moonring.Tensor what loss sees in place of log-probs; where zero_stage 3 parts weights, a rank without a target calls batch:token_log_probs where the others do
---@field needs_reference? boolean whether batch.reference is wanted
---@field survey? table { documents = "own" | "mismatched", per_example, run = function(policy, reference, targets, group) -> metrics }: sees the log-probs of all the step's documents before its first backward
---@field state? fun(): string what a checkpoint keeps; with load_state
---@field load_state? fun(text: string)
---@field parameters? moonring.Parameters weights of its own
---@field save? fun(folder: string, options?: table) writes them, with { write } as Model:save has it

---@class moonring.SftObjectiveOptions
---@field count? "labels" | "targets" as objectives.sft's
---@field dft? boolean
---@field eaft? boolean
---@field eaft_alpha? number
---@field label_smoothing? number

--- Supervised fine-tuning and pre-training.
---@param given? moonring.SftObjectiveOptions
---@return moonring.Objective
function objective.sft(given) end

--- DPO and its kin.
---@param given table those of objectives.preference, and ld_alpha
---@return moonring.Objective
function objective.preference(given) end

--- KTO.
---@param given table those of objectives.kto
---@return moonring.Objective
function objective.kto(given) end

--- A reward model: the value head's score of each document's last token.
---@param given table { value_head }
---@return moonring.Objective
function objective.reward(given) end

return objective
