--- moonring graphless_loss.lua KIND CONFIG.yaml|key=value...: trains, by an objective of this
-- script's own. Says how often this rank had no target.
--   plain     made of the log-probs, whatever they are
--   number    the same, but 0, a number, where this rank has no target
--   tensor    the same, but a tensor without a graph there
--   values    log-probs as values of its own; a tensor without a graph in their place there
--   nothing   the same, but it makes no log-probs there
--   detached  made of the log-probs' values, on every rank
--   logits    made by objectives.logits, on every rank
local moonring = require "moonring"
local kind = table.remove(arg, 1)

local function targets_of(batch) return (batch.targets:gt(-1)):to("fp64"):sum():item() end

local values = {}

function values.logits(_, hidden, learner)
  return select(2, moonring.objectives.logits(hidden, learner:head(), 1))
end

function values.values(batch, hidden, learner)
  local log_probs = batch:token_log_probs(learner, hidden)
  return targets_of(batch) == 0 and moonring.tensor { 0 } or log_probs
end

function values.nothing(batch, hidden, learner)
  return targets_of(batch) == 0 and moonring.tensor { 0 } or batch:token_log_probs(learner, hidden)
end

local without = 0
function moonring.stages.objective(_, learner)
  local own = values[kind]
  return {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    values = own and function(batch, hidden) return own(batch, hidden, learner) end,
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

dofile(moonring.system.script_path "train")
io.stderr:write(("%d times without a target\n"):format(without))
