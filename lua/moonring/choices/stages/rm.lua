--- Reward models: trains a value head to score the chosen answer of a pair above the rejected one.
-- Loss of a pair: -log sigmoid(chosen score - rejected score), with scores at each answer's last
-- token.
local native = require "moonring.native.objectives"

local rm = { name = "rm", reads = "dpo", documents = 2, shares = true, drops = true,
  head = "value", about = "a reward model, which scores answers, from pairs of answers" }

function rm.objective(c, policy)
  local head = policy:value_head { seed = c.seed }
  return {
    level = "sequence",
    parameters = head:parameters(),
    save = function(folder, how) head:save(folder, how) end,
    values = function(batch, hidden, noise)
      local drops = batch:noise(noise)
      if drops then drops.dropout = head:dropout() end
      return batch:own(native.document_scores(hidden, head:weight(), head:bias(), batch.layout,
        batch.mesh, drops))
    end,
    count = function(batch) return batch:size() end,
    loss = function(_, scores) return native.reward_loss(scores) end,
  }
end

function rm.compares() return false end
function rm.group() return nil end
function rm.depends() return {} end
function rm.check() end

return rm
