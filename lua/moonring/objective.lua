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
-- state() and load_state(text): what a checkpoint keeps; parameters and save(folder): weights of the objective's own; every rank calls save.
local native = require "moonring.native.objectives"

local objective = {}

--- Supervised fine-tuning and pre-training. Options: those of objectives.sft, and label_smoothing.
function objective.sft(options)
  local sft = native.sft { count = options.count, dft = options.dft, eaft = options.eaft, eaft_alpha = options.eaft_alpha }
  return {
    level = "token",
    label_smoothing = options.label_smoothing,
    statistics = options.eaft and { "top_entropy" } or nil,
    count = function(batch) return sft:count(batch:labels(), batch:lengths()) end,
    loss = function(batch, log_probs)
      local sum, told = sft:loss(log_probs, batch.targets, batch.statistics)
      return sum, { token_accuracy = told.token_accuracy }
    end,
  }
end

--- DPO and its kin: objectives.preference's options, and ld_alpha.
function objective.preference(options)
  local preference = native.preference { loss = options.loss, beta = options.beta, ftx = options.ftx, simpo_gamma = options.simpo_gamma,
    label_smoothing = options.label_smoothing, bco_weight = options.bco_weight }
  return {
    level = "sequence",
    needs_reference = preference:needs_reference(),
    statistics = { "mean_logit" },
    weights = options.ld_alpha and function(batch) return native.desensitized(batch:sequence(), options.ld_alpha) end,
    survey = preference:needs_survey() and {
      documents = "own",
      per_example = 2,
      run = function(policy, reference, targets, group) return preference:survey(policy, reference, targets, group) end,
    } or nil,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return preference:loss { policy = log_probs, reference = batch.reference, targets = batch:document_targets(),
        mean_logits = batch.statistics.mean_logit, places = batch:places() }
    end,
    state = options.bco_weight > 0 and function() return preference:state() end or nil,
    load_state = function(text) preference:load_state(text) end,
  }
end

--- KTO: objectives.kto's options.
function objective.kto(options)
  local kto = native.kto(options)
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
      return kto:loss { policy = log_probs, reference = batch.reference, targets = batch:document_targets(), mean_logits = batch.statistics.mean_logit,
        desirable = batch:desirable(), places = batch:places() }
    end,
  }
end

--- A reward model: the value head's score of each document's last token. Options: value_head.
function objective.reward(options)
  local head = options.value_head
  return {
    level = "sequence",
    parameters = head:parameters(),
    save = function(folder, options) head:save(folder, options) end,
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
