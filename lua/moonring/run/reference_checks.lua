--- Checks the keys of the reference model (ref_model, precompute_ref_log_probs) against what the
-- objective needs of it. Any objective may need one: a stage's, or a custom one with
-- needs_reference.
local custom_pieces = require "moonring.choices.custom_pieces"
local errors = require "moonring.base.errors"
local stages = require "moonring.choices.stages"

---@class moonring.reference_checks
local reference_checks = {}

local KEYS = { "ref_model", "precompute_ref_log_probs" }

local function refuse_idle_keys(c, why)
  for _, key in ipairs(KEYS) do
    if c[key] then errors.fail(key, ": ", why) end
  end
end

local function has_none(own)
  return own.place .. ": the objective has no reference: expected needs_reference = true, "
    .. "\"tokens\" or \"distributions\" in it"
end

--- Refuses the keys for an objective that has no reference, before the model is loaded. A custom
--- objective that is a function is checked later; stages that generate have checks of their own.
---@param c moonring.Configuration
function reference_checks.keys(c)
  if stages.compares(c) or stages.of(c).rollouts then return end
  local own = custom_pieces.of(c, "objective")
  refuse_idle_keys(c, own and has_none(own) or "no reference is used in stage " .. c.stage
    .. ", other than by a custom objective with needs_reference")
end

-- Stored log-probs are those of whole documents, by example, without a mask.
local function check_stored(c, o)
  local needs = o.needs_reference
  local function fail(...) errors.fail("precompute_ref_log_probs: ", ...) end
  if needs ~= true then
    fail("it stores log-probs of documents, and the objective has needs_reference = \"", needs,
      "\": leave the key out")
  elseif o.mask then
    fail("it stores log-probs that are computed without a mask, and the objective has one: leave ",
      "the key out")
  elseif c.neat_packing then
    fail("it stores a fixed number of log-probs per example, and with neat_packing a row has any ",
      "number of documents: leave one of the two out")
  end
end

--- Refuses a combination of the keys and an objective that would not work, or have no effect.
--- Errors: INVALID_ARGUMENT.
---@param c moonring.Configuration
---@param o moonring.Objective
function reference_checks.objective(c, o)
  local own = custom_pieces.of(c, "objective")
  if not o.needs_reference then
    if own then refuse_idle_keys(c, has_none(own)) end
    return
  end
  if own and o.needs_reference == "scored" and not stages.of(c).rollouts then
    errors.fail("objective: ", own.place, ": needs_reference = \"scored\" is for stages that ",
      "generate; expected true, \"tokens\" or \"distributions\" in stage ", c.stage)
  end
  if c.precompute_ref_log_probs then check_stored(c, o) end
end

return reference_checks
