--- An objective is a table that defines the count and the sum of a step's loss. The engine runs it.
-- A script may pass a custom one, for which level, count and loss are enough. Only the engine
-- divides, once, by the count of the whole step. So an objective does not depend on the number of
-- ranks or on gradient accumulation.
--
-- An objective must keep private state outside of the table, or in fields that begin with an
-- underscore. Any other unknown field is an error.
local options = require "moonring.base.options"

---@class moonring.objective
local objective = {}

--- The fields of an objective's table. `level`, `count` and `loss` are required.
---@class moonring.Objective
--- `level` "token": loss receives the log-probs of this rank's tokens, [T_local], and returns this
--- rank's share of the sum. "sequence": loss receives log-probs of documents, [documents], and
--- returns a sum that is equal on all ranks of an sp group.
---@field level "token" | "sequence"
--- `count` returns the batch's contribution to the divisor of the loss. It is called before the
--- first forward, so it can use only labels and lengths.
---@field count fun(batch: moonring.Batch): number
--- `loss` returns the sum (0 if the batch adds nothing) and metrics: name -> { sum, count }.
---@field loss fun(batch: moonring.Batch, values: any): moonring.Tensor | number,
---   table<string, number[]>?
--- `losses` names several losses whose gradients are computed apart. Then `loss` returns a table of
--- sums by these names (an absent one is 0), and `combine` the gradient of the step from those of
--- the losses (moonring.Gradients, by name); default: their sum. The forward is run once for each
--- loss. The logged loss is their sum.
---@field losses? string[]
---@field combine? fun(gradients: table<string, moonring.Gradients>): moonring.Gradients
--- `statistics` are requested from objectives.log_prob. The results are in batch.statistics; at
--- sequence level they are summed over each document.
---@field statistics? string[]
---@field label_smoothing? number passed to objectives.log_prob
--- `temperature` is passed to objectives.log_prob, also for the reference if needs_reference is
--- "tokens".
---@field temperature? number
--- `weights` returns a factor for each token of the stream, for the log-prob sums of documents.
---@field weights? fun(batch: moonring.Batch): moonring.Tensor
--- `values` computes what loss receives instead of log-probs: a tensor, or several by name. With
--- zero_stage 3, calls that use a language-model head (batch:token_log_probs, batch:divergence,
--- ...) are collective: a rank without targets must make them too.
---@field values? fun(batch: moonring.Batch, hidden: moonring.Tensor, noise: table?):
---   moonring.Tensor | table<string, moonring.Tensor>
--- `mask` returns the attention mask beyond causality, also for the reference; nil: none. It is
--- called with the whole stream, before that is cut over ranks.
---@field mask? moonring.MaskFunction
--- `states` lists the layers whose hidden states `values` and `loss` need, as batch.states[k],
--- [T_local, D]. k = 0 is after the embedding, k > 0 after the k-th block, before the final norm.
---@field states? integer[]
--- `upto` stops the model's forward after this layer, if `values` needs no later one. The argument
--- `hidden` of `values` is then the state after that layer; later blocks are skipped.
---@field upto? integer
--- `around` may replace the hidden state after a layer by the tensor that it returns (nil:
--- unchanged). It is one function for all layers, or a table of functions of (hidden, batch) by
--- layer. It is applied in training, in evaluation and in answers to sample_prompt (where `batch`
--- is nil), but not to the reference model. It must treat each token's row in the same way on every
--- rank (see moonring.ForwardOptions).
---@field around? (fun(layer: integer, hidden: moonring.Tensor, batch: moonring.Batch):
---   moonring.Tensor?) | table<integer, function>
--- `inside` has functions inside blocks, by block from 1: moonring.InsideBlock. Each gets the batch
--- as a further argument, after all others. They are applied where `around` is, but not in
--- generation, which refuses them.
---@field inside? table<integer, moonring.InsideBlock>
--- `needs_reference` says what batch.reference contains: true, the reference's log-probs of
--- documents; "tokens", its log-probs of this rank's tokens; "distributions", the input of a
--- divergence (moonring.ReferenceRows); "scored", nothing, because the rollout already computed
--- log-probs.
---@field needs_reference? boolean | "tokens" | "distributions" | "scored"
--- `of_targets`: whether `values` depend on targets only. A step without targets is then skipped,
--- as it is for an objective without `values`.
---@field of_targets? boolean
--- `surrogate` says that the gradient is deliberately not that of the loss's value: values that the
--- loss detaches are constants, as in policy gradients. Only `moonring check` reads it.
---@field surrogate? boolean
--- `survey` is { documents = "own" | "mismatched", per_example, run = function(policy, reference,
--- targets, group) -> metrics }. Its run receives the log-probs of all documents of a step before
--- the step's first backward.
---@field survey? table
---@field state? fun(): string the state for checkpoints; requires load_state
---@field load_state? fun(text: string)
---@field parameters? moonring.Parameters trainable weights of the objective
--- `save` saves these parameters, with the option `write` as in Model:save. It is called on every
--- rank.
---@field save? fun(folder: string, options?: table)

local FIELDS = { level = "string", count = "function", loss = "function", statistics = "table?",
  label_smoothing = "number?", temperature = "number?", weights = "function?", values = "function?",
  states = "table?", upto = "number?", around = "any?", inside = "table?", mask = "function?",
  needs_reference = "any?", of_targets = "boolean?", surrogate = "boolean?", survey = "table?",
  state = "function?", load_state = "function?", parameters = "any?", save = "function?",
  losses = "table?", combine = "function?" }
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
      "documents have none: expected needs_reference = \"tokens\"")
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
  if given.combine and not given.losses then
    options.refuse("objective", "combine without losses: expected their names, { \"a\", \"b\" }")
  elseif given.losses and given.survey then
    options.refuse("objective", "losses and survey: each loss has passes of its own, and the ",
      "survey is made once per step")
  end
  if given.survey then
    options.check("objective.survey", given.survey, SURVEY)
    options.choice("objective.survey", given.survey, "documents", { "own", "mismatched" })
  end
  return given
end

--- Refuses functions inside blocks where text is generated, which does not run them. Errors:
--- INVALID_ARGUMENT.
---@param given? moonring.Objective
---@param what string what generates
function objective.refuse_inside(given, what)
  if not (given and given.inside) then return end
  options.refuse("objective", "inside: ", what, " would generate without these functions, so ",
    "with another model than the one that is trained")
end

return objective
