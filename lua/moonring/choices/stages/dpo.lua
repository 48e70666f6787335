--- Preference optimization on pairs of answers: DPO and related losses (pref_loss; formulas and
-- sources are in objectives/preference_losses.cc).
local custom_pieces = require "moonring.choices.custom_pieces"
local errors = require "moonring.base.errors"
local native = require "moonring.native.objectives"
local router_groups = require "moonring.choices.router_groups"

-- Dropout is off, as in LLaMA-Factory, so policy and reference are equal at the first step.
local dpo = { name = "dpo", reads = "dpo", documents = 2, shares = true, drops = false,
  balances = "mean", head = "logits",
  about = "preference optimization on pairs of answers: DPO, and the losses of pref_loss" }

-- The properties of a preference loss, from the native table.
local function facts_of(name)
  for _, loss in ipairs(native.preference_losses()) do
    if loss.name == name then return loss end
  end
end

function dpo.objective(c)
  local preference = native.preference { loss = c.pref_loss, beta = c.pref_beta,
    ftx = c.pref_ftx, simpo_gamma = c.simpo_gamma, label_smoothing = c.dpo_label_smoothing,
    bco_weight = c.pref_bco_weight }
  local remembers = c.pref_bco_weight > 0
  return {
    level = "sequence",
    needs_reference = preference:needs_reference(),
    statistics = { "mean_logit" },
    weights = c.ld_alpha and function(batch)
      return native.desensitized(batch:sequence(), c.ld_alpha)
    end,
    survey = preference:needs_survey() and {
      documents = "own",
      per_example = 2,
      run = function(policy, reference, targets, group)
        return preference:survey(policy, reference, targets, group)
      end,
    } or nil,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return preference:loss {
        policy = log_probs,
        reference = batch.reference and batch.reference:on(log_probs),
        targets = batch:document_targets():on(log_probs),
        mean_logits = batch.statistics.mean_logit,
        places = batch:places(),
      }
    end,
    state = remembers and function() return preference:state() end or nil,
    load_state = remembers and function(text) preference:load_state(text) end or nil,
  }
end

function dpo.compares(c) return facts_of(c.pref_loss).needs_reference end

-- The load-balancing loss is computed over the pairs of one device's batch, as in TRL's trainer.
dpo.group = router_groups.of

function dpo.depends(c)
  return { pref_loss = c.pref_loss, ld_alpha = c.ld_alpha or "none" }
end

local function check_reference(c, loss)
  if loss.needs_reference or custom_pieces.of(c, "objective") then return end
  if c.precompute_ref_log_probs then
    errors.fail("precompute_ref_log_probs: pref_loss ", loss.name,
      " has no reference whose log-probs could be kept")
  end
  if c.ref_model then errors.fail("ref_model: pref_loss ", loss.name, " has no reference") end
  if c.pref_bco_weight > 0 then
    errors.fail("pref_bco_weight: pref_loss ", loss.name, " has no reference, BCO needs one")
  end
end

local function check_smoothing(c, loss)
  local given, most, smoothed = c.dpo_label_smoothing, loss.most_smoothing, {}
  for _, one in ipairs(native.preference_losses()) do
    if one.most_smoothing > 0 then smoothed[#smoothed + 1] = one.name end
  end
  if given > 0 and most == 0 then
    errors.fail("dpo_label_smoothing: pref_loss ", loss.name, " has no label smoothing; ",
      table.concat(smoothed, " and "), " have")
  end
  if given < 0 or given > most then
    errors.fail("dpo_label_smoothing: expected 0 to ", most, ", got ", given)
  end
  if loss.smoothing_below_most and given == most then
    errors.fail("dpo_label_smoothing: ", loss.name, " divides by 1 - 2 x it, expected less than ",
      most)
  end
end

function dpo.check(c)
  if not (c.pref_beta > 0) then
    errors.fail("pref_beta: expected more than 0, got ", c.pref_beta)
  end
  local loss = facts_of(c.pref_loss)
  check_reference(c, loss)
  check_smoothing(c, loss)
  if c.ld_alpha and (c.ld_alpha < 0 or c.ld_alpha > 1) then
    errors.fail("ld_alpha: expected 0 to 1, got ", c.ld_alpha)
  end
end

return dpo
