--- KTO (arXiv 2402.01306): each example is one answer, labeled good or bad. The examples of a group
-- share a KL term. It is estimated from mismatched documents, which pair a prompt with the answer
-- of another row.
local errors = require "moonring.base.errors"
local native = require "moonring.native.objectives"

-- Dropout is off, as in LLaMA-Factory, so policy and reference are equal at the first step.
local kto = { name = "kto", reads = "kto", documents = 2, drops = false, balances = "mean",
  head = "logits", about = "preference optimization on single answers, labeled good or bad (KTO)" }

function kto.objective(c)
  local loss = native.kto { beta = c.pref_beta, chosen_weight = c.kto_chosen_weight,
    rejected_weight = c.kto_rejected_weight, ftx = c.pref_ftx }
  return {
    level = "sequence",
    needs_reference = true,
    statistics = { "mean_logit" },
    survey = {
      documents = "mismatched",
      per_example = 1,
      run = function(policy, reference, _, group) return loss:survey(policy, reference, group) end,
    },
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return loss:loss {
        policy = log_probs,
        reference = batch.reference:on(log_probs),
        targets = batch:document_targets():on(log_probs),
        mean_logits = batch.statistics.mean_logit,
        desirable = batch:desirable(),
        places = batch:places(),
      }
    end,
  }
end

function kto.compares() return true end
function kto.group(c, dp) return c.per_device_train_batch_size * dp end
function kto.depends() return {} end

function kto.check(c)
  if not (c.pref_beta > 0) then
    errors.fail("pref_beta: expected more than 0, got ", c.pref_beta)
  end
end

return kto
