--- moonring graphless_loss.lua KIND CONFIG.yaml|key=value...: trains with a custom objective, and
-- prints how often this rank had no target. KIND is the loss:
--   plain     computed from the log-probs in all cases
--   number    the same, but the number 0 where this rank has no target
--   tensor    the same, but a tensor without a graph where this rank has no target
--   values    custom log-prob values; a tensor without a graph in their place without a target
--   nothing   the same as plain, but without a target it computes no log-probs
--   detached  computed from detached log-probs, on every rank
--   logits    computed by objectives.logits, on every rank
local moonring = require "moonring"
local kind = table.remove(arg, 1)

local function targets_of(batch) return (batch.targets:gt(-1)):to("fp64"):sum():item() end

local values = {}

function values.logits(_, hidden, policy)
  return select(2, moonring.objectives.logits(hidden, policy:head(), 1))
end

function values.values(batch, hidden, policy)
  local log_probs = batch:token_log_probs(policy, hidden)
  return targets_of(batch) == 0 and moonring.tensor { 0 } or log_probs
end

function values.nothing(batch, hidden, policy)
  return targets_of(batch) == 0 and moonring.tensor { 0 } or batch:token_log_probs(policy, hidden)
end

local without = 0
local function objective(_, policy)
  local own = values[kind]
  return {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    values = own and function(batch, hidden) return own(batch, hidden, policy) end,
    loss = function(batch, log_probs)
      local targets = targets_of(batch)
      if targets == 0 then without = without + 1 end
      if kind == "detached" then return -log_probs:detach():sum() end
      if targets == 0 and kind == "number" then return 0 end
      if targets == 0 and kind == "tensor" then return moonring.tensor({ 0 }):sum() end
      return -log_probs:sum()
    end,
  }
end

local open = moonring.run.open
function moonring.run.open(config) return open(config, { objective = objective }) end

dofile(moonring.system.script_path "train")
io.stderr:write(("%d times without a target\n"):format(without))
