--- What a step counts and sums, as tables that the runtime drives; a script may pass one of its own:
--   level     "token": loss sees the log-probs of this rank's tokens [T_local], and returns this rank's share of a sum
--             "sequence": loss sees the log-probs of the documents [documents], the same on the ranks of an sp group, and so is its sum
--   count     function(batch) -> what the batch adds to the divisor; before the first forward, from labels and lengths alone
--   loss      function(batch, log_probs) -> sum, metrics: name -> { sum, count }
--             The sum is made of log_probs; a rank that has nothing to add may return 0
-- The runtime alone divides, once, by the count of the whole step; an objective knows neither ranks nor accumulation.
--
-- Further fields, where there is need: statistics and label_smoothing (of objectives.log_prob; what they give is in batch.statistics, summed over
-- documents at sequence level); weights(batch) -> of the tokens of the stream, by which a document's sum is made; values(batch, hidden, noise) in
-- place of log-probs; needs_reference (batch.reference: the same of the reference model, per document); survey = { documents = "own" | "mismatched",
-- per_example, run(policy, reference, targets, group) -> metrics }: log-probs of all the step's documents before its first backward;
-- state() and load_state(text), both or neither: what a checkpoint keeps; parameters and
-- save(folder): weights of the objective's own; every rank calls save. What an objective remembers
-- for itself it keeps outside of the table, or in it under names that begin with an underscore: any
-- other name is refused.
local native = require "moonring.native.objectives"
local options = require "moonring.config.options"

local objective = {}

local FIELDS = { level = "string", count = "function", loss = "function", statistics = "table?",
  label_smoothing = "number?", weights = "function?", values = "function?",
  needs_reference = "boolean?", survey = "table?", state = "function?", load_state = "function?",
  parameters = "any?", save = "function?" }
local SURVEY = { documents = "string", per_example = "number", run = "function" }
local SFT = { count = "string?", dft = "boolean?", eaft = "boolean?", eaft_alpha = "number?",
  label_smoothing = "number?" }
local PREFERENCE = { loss = "string?", beta = "number?", ftx = "number?", simpo_gamma = "number?",
  label_smoothing = "number?", bco_weight = "number?", ld_alpha = "number?" }

--- Refuses a table that is no objective; returns it.
function objective.check(given)
  options.check("objective", given, FIELDS)
  options.choice("objective", given, "level", { "token", "sequence" })
  if given.state and not given.load_state then
    options.refuse("objective", "state without load_state: what a checkpoint keeps is never loaded")
  elseif given.load_state and not given.state then
    options.refuse("objective", "load_state without state: a checkpoint keeps nothing to load")
  end
  if given.survey then
    options.check("objective.survey", given.survey, SURVEY)
    options.choice("objective.survey", given.survey, "documents", { "own", "mismatched" })
  end
  return given
end

--- Supervised fine-tuning and pre-training. Options: those of objectives.sft, and label_smoothing.
function objective.sft(given)
  given = options.check("objective.sft", given, SFT)
  local sft = native.sft { count = given.count, dft = given.dft, eaft = given.eaft,
    eaft_alpha = given.eaft_alpha }
  return {
    level = "token",
    label_smoothing = given.label_smoothing,
    statistics = given.eaft and { "top_entropy" } or nil,
    count = function(batch) return sft:count(batch:labels(), batch:lengths()) end,
    loss = function(batch, log_probs)
      local sum, told = sft:loss(log_probs, batch.targets, batch.statistics)
      return sum, { token_accuracy = told.token_accuracy }
    end,
  }
end

--- DPO and its kin: objectives.preference's options, and ld_alpha.
function objective.preference(given)
  given = options.check("objective.preference", given, PREFERENCE)
  local preference = native.preference { loss = given.loss, beta = given.beta, ftx = given.ftx,
    simpo_gamma = given.simpo_gamma, label_smoothing = given.label_smoothing,
    bco_weight = given.bco_weight }
  local remembers = given.bco_weight ~= nil and given.bco_weight > 0
  return {
    level = "sequence",
    needs_reference = preference:needs_reference(),
    statistics = { "mean_logit" },
    weights = given.ld_alpha and function(batch)
      return native.desensitized(batch:sequence(), given.ld_alpha)
    end,
    survey = preference:needs_survey() and {
      documents = "own",
      per_example = 2,
      run = function(policy, reference, targets, group) return preference:survey(policy, reference, targets, group) end,
    } or nil,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return preference:loss { policy = log_probs, reference = batch.reference and batch.reference:on(log_probs), targets = batch:document_targets():on(log_probs),
        mean_logits = batch.statistics.mean_logit, places = batch:places() }
    end,
    state = remembers and function() return preference:state() end or nil,
    load_state = remembers and function(text) preference:load_state(text) end or nil,
  }
end

--- KTO: objectives.kto's options.
function objective.kto(given)
  local kto = native.kto(given)
  return {
    level = "sequence",
    needs_reference = true,
    statistics = { "mean_logit" },
    survey = {
      documents = "mismatched",
      per_example = 1,
      run = function(policy, reference, _, group) return kto:survey(policy, reference, group) end,
    },
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return kto:loss { policy = log_probs, reference = batch.reference:on(log_probs), targets = batch:document_targets():on(log_probs), mean_logits = batch.statistics.mean_logit,
        desirable = batch:desirable(), places = batch:places() }
    end,
  }
end

--- A reward model: the value head's score of each document's last token. Options: value_head.
function objective.reward(given)
  local head = options.check("objective.reward", given, { value_head = "any" }).value_head
  return {
    level = "sequence",
    parameters = head:parameters(),
    save = function(folder, how) head:save(folder, how) end,
    values = function(batch, hidden, noise)
      local drops = batch:noise(noise)
      if drops then drops.dropout = head:dropout() end
      return native.document_scores(hidden, head:weight(), head:bias(), batch.layout, batch.mesh, drops)
    end,
    count = function(batch) return batch:size() end,
    loss = function(_, scores) return native.reward_loss(scores) end,
  }
end

return objective
