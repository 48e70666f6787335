--- An objective defines, as a table, the count and the sum of a step's loss; the engine drives it.
-- A script may pass a custom one: level, count and loss are enough. Only the engine divides, once,
-- by the count of the whole step, so an objective does not depend on the number of ranks or on
-- gradient accumulation.
--
-- An objective keeps private state outside of the table, or in fields that begin with an
-- underscore. Other unknown fields are errors.
local options = require "moonring.base.options"

---@class moonring.objective
local objective = {}

---@class moonring.Objective
--- "token": loss receives the log-probs of this rank's tokens [T_local] and returns this rank's
--- share of the sum. "sequence": loss receives log-probs of documents [documents] and returns a sum
--- that is equal on all ranks of an sp group
---@field level "token" | "sequence"
--- the batch's contribution to the divisor, computed before the first forward from labels and
--- lengths
---@field count fun(batch: moonring.Batch): number
--- returns the sum (0 if the batch adds nothing) and metrics: name -> { sum, count }
---@field loss fun(batch: moonring.Batch, values: any): moonring.Tensor | number,
---   table<string, number[]>?
--- passed to objectives.log_prob; results are in batch.statistics, at sequence level as document
--- sums
---@field statistics? string[]
---@field label_smoothing? number passed to objectives.log_prob
--- passed to objectives.log_prob, also for the reference if needs_reference is "tokens"
---@field temperature? number
--- a factor for each token of the stream in the log-prob sums of documents
---@field weights? fun(batch: moonring.Batch): moonring.Tensor
--- computes what loss receives instead of log-probs: a tensor, or several by name. With zero_stage
--- 3 calls that use a head (batch:token_log_probs, batch:divergence, ...) are collective: a rank
--- without targets must make them too
---@field values? fun(batch: moonring.Batch, hidden: moonring.Tensor, noise: table?):
---   moonring.Tensor | table<string, moonring.Tensor>
--- the attention mask beyond causality, for the reference too; made from the whole stream before it
--- is cut; nil: none
---@field mask? moonring.MaskFunction
--- layers whose hidden states `values` and `loss` need, as batch.states[k] [T_local, D]: 0 is after
--- the embedding, k after the k-th block, before the final norm
---@field states? integer[]
--- stops the model's forward after this layer, if `values` needs no later one. `hidden` is then the
--- state after that layer; later blocks are skipped
---@field upto? integer
--- replaces the hidden state after a layer by the returned tensor (nil: unchanged): one function
--- for all layers, or functions of (hidden, batch) by layer. Applied in training, in evaluation and
--- in answers to sample_prompt (where `batch` is nil), but not to the reference model. Must treat
--- each token's row alike on every rank (see moonring.ForwardOptions)
---@field around? (fun(layer: integer, hidden: moonring.Tensor, batch: moonring.Batch):
---   moonring.Tensor?) | table<integer, function>
--- what the objective needs of the reference model in batch.reference: true, log-probs of
--- documents; "tokens", log-probs of this rank's tokens; "distributions", the input of a divergence
--- (moonring.ReferenceRows); "scored", nothing, because rollouts already scored their completions
---@field needs_reference? boolean | "tokens" | "distributions" | "scored"
--- whether `values` depend on targets only: then a step without targets is skipped, as it is if
--- there are no `values`
---@field of_targets? boolean
--- { documents = "own" | "mismatched", per_example, run = function(policy, reference, targets,
--- group) -> metrics }: receives log-probs of all documents of a step before its first backward
---@field survey? table
---@field state? fun(): string the state for checkpoints; requires load_state
---@field load_state? fun(text: string)
---@field parameters? moonring.Parameters trainable weights of the objective
--- saves these weights, with the option `write` as in Model:save; called on every rank
---@field save? fun(folder: string, options?: table)

local FIELDS = { level = "string", count = "function", loss = "function", statistics = "table?",
  label_smoothing = "number?", temperature = "number?", weights = "function?", values = "function?",
  states = "table?", upto = "number?", around = "any?", mask = "function?",
  needs_reference = "any?", of_targets = "boolean?", survey = "table?", state = "function?",
  load_state = "function?", parameters = "any?", save = "function?" }
local SURVEY = { documents = "string", per_example = "number", run = "function" }

--- Checks an objective and returns it; engine.new calls this. Errors: INVALID_ARGUMENT, with the
--- nearest field name.
---@param given moonring.Objective
---@return moonring.Objective
function objective.check(given)
  options.check("objective", given, FIELDS)
  options.choice("objective", given, "level", { "token", "sequence" })
  if given.needs_reference then
    options.choice("objective", given, "needs_reference", { "true", "tokens",
      "distributions", "scored" })
  end
  if given.needs_reference == true and (given.temperature or 1) ~= 1 then
    options.refuse("objective", "temperature is ", given.temperature, ", and the reference's ",
      "documents have none: wanted needs_reference = \"tokens\"")
  end
  if given.state and not given.load_state then
    options.refuse("objective", "state without load_state: what a checkpoint keeps is never loaded")
  elseif given.load_state and not given.state then
    options.refuse("objective", "load_state without state: a checkpoint keeps nothing to load")
  end
  if given.upto and not given.values then
    options.refuse("objective", "upto without values: the forward ends before log-probs could be ",
      "made, so `values` says what the loss sees")
  end
  if given.survey then
    options.check("objective.survey", given.survey, SURVEY)
    options.choice("objective.survey", given.survey, "documents", { "own", "mismatched" })
  end
  return given
end

return objective
