--- An objective: what a step counts and sums, as a table that the engine drives. A script may pass
-- one of its own; level, count and loss are enough. The engine alone divides, once, by the count of
-- the whole step: an objective knows neither ranks nor accumulation.
--
-- What it remembers for itself it keeps outside of the table, or in it under names that begin with
-- an underscore: any other name is refused.
local options = require "moonring.base.options"

---@class moonring.objective
local objective = {}

---@class moonring.Objective
--- whether loss sees the log-probs of this rank's tokens [T_local] and returns this rank's share of
--- a sum, or sees those of documents [documents], and its sum is the same on the ranks of an sp
--- group
---@field level "token" | "sequence"
--- what the batch adds to the divisor, before the first forward: from labels and lengths alone
---@field count fun(batch: moonring.Batch): number
--- the sum (0: nothing to add), and metrics: name -> { sum, count }
---@field loss fun(batch: moonring.Batch, values: any): moonring.Tensor | number,
---   table<string, number[]>?
--- of objectives.log_prob; they are in batch.statistics, summed over documents at sequence level
---@field statistics? string[]
---@field label_smoothing? number of objectives.log_prob
--- of objectives.log_prob, and of the reference's tokens; with needs_reference "tokens", or without
---@field temperature? number
--- of the tokens of the stream, by which a document's sum is made
---@field weights? fun(batch: moonring.Batch): moonring.Tensor
--- what loss sees in place of log-probs: a tensor, or several by name; with zero_stage 3 a rank
--- without a target calls what looks at a head (batch:token_log_probs, batch:divergence, ...) where
--- the others do
---@field values? fun(batch: moonring.Batch, hidden: moonring.Tensor, noise: table?):
---   moonring.Tensor | table<string, moonring.Tensor>
--- who sees whom beyond the causal rule, for the reference too: from the whole stream, before it is
--- cut; nil: none
---@field mask? moonring.MaskFunction
--- layers whose states `values` and `loss` see, as batch.states[k] [T_local, D]: 0 after the
--- embedding, k after the k-th block, without the final norm
---@field states? integer[]
--- the layer after which the model's forward ends, for `values` that need no later one: `hidden` is
--- the state there, and the blocks above are left out
---@field upto? integer
--- takes the state after a layer and returns what goes on in its place (nil: the same): one of all
--- layers, or functions of (hidden, batch) by layer. In training and evaluation alike, and in
--- answers to sample_prompt, where `batch` is nil; of the model, not of its reference. The same
--- function of a token's row on every rank (see moonring.ForwardOptions)
---@field around? (fun(layer: integer, hidden: moonring.Tensor, batch: moonring.Batch):
---   moonring.Tensor?) | table<integer, function>
--- whether batch.reference is wanted, and what of the reference model: true, its documents'
--- log-probs; "tokens", those of this rank's tokens; "distributions", what a divergence is from
--- (moonring.ReferenceRows); "scored", nothing: of completions the rollout has looked at it
---@field needs_reference? boolean | "tokens" | "distributions" | "scored"
--- whether `values` are of targets alone: a step without any has nothing to learn then, as it is
--- without `values`
---@field of_targets? boolean
--- { documents = "own" | "mismatched", per_example, run = function(policy, reference, targets,
--- group) -> metrics }: sees the log-probs of all the step's documents before its first backward
---@field survey? table
---@field state? fun(): string what a checkpoint keeps; with load_state
---@field load_state? fun(text: string)
---@field parameters? moonring.Parameters weights of its own
--- writes them, with { write } as Model:save has it; every rank calls it
---@field save? fun(folder: string, options?: table)

local FIELDS = { level = "string", count = "function", loss = "function", statistics = "table?",
  label_smoothing = "number?", temperature = "number?", weights = "function?", values = "function?",
  states = "table?", upto = "number?", around = "any?", mask = "function?",
  needs_reference = "any?", of_targets = "boolean?", survey = "table?", state = "function?",
  load_state = "function?", parameters = "any?", save = "function?" }
local SURVEY = { documents = "string", per_example = "number", run = "function" }

--- Refuses a table that is no objective, and returns one that is. engine.new does so. Errors:
--- INVALID_ARGUMENT, with the nearest name.
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
