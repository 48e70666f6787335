--- Losses of a script's own, for invariance.lua: tables, or functions that make them of the policy
-- and the configuration.
local moonring = require "moonring"

-- What scripts/own_loss.lua and scripts/dpo.lua would write.
local own = {
  token = {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    loss = function(_, log_probs) return -log_probs:sum() end,
  },
  sequence = {
    level = "sequence",
    needs_reference = true,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      local ratio = log_probs - batch.reference
      local margin = ratio[{ { 0, ratio:numel(), 2 } }] - ratio[{ { 1, ratio:numel(), 2 } }]
      return -(margin * 0.1):logsigmoid():sum(),
        { ["rewards/margins"] = { (margin * 0.1):sum():item(), margin:numel() } }
    end,
  },
}

-- Prompts that see themselves in both directions; the third layer is plain.
own.prefix = setmetatable({
  mask = function(batch)
    return { prefix = batch:sequence():prompts(), layers = { { window = 90 }, {}, false } }
  end,
}, { __index = own.token })
-- The rejected text sees the prompt of the chosen one before its own, and that whole.
own.branch = setmetatable({
  mask = function(batch)
    local prompts, parents = batch:sequence():prompts(), {}
    for d = 2, #prompts, 2 do parents[d] = { document = d - 1, length = prompts[d - 1] } end
    return { parents = parents, layers = { {}, { prefix = prompts, window = 130 } } }
  end,
}, { __index = own.sequence })

-- Log-probs by the final norm and the head of a state below the top.
local function lens(policy, batch, state)
  return batch:token_log_probs(policy, policy:norm(state))
end

-- The blocks' own log-probs and those of two states, of a stream that is changed on its way.
function own.states(policy)
  return {
    level = "token",
    states = { 1, 2 },
    around = { [1] = function(hidden) return hidden * 1.25 + hidden:sigmoid() end },
    count = own.token.count,
    values = function(batch, hidden)
      return batch:token_log_probs(policy, hidden) + lens(policy, batch, batch.states[2]) * 0.5
    end,
    loss = function(batch, log_probs)
      return -log_probs:sum() + batch.states[1]:square():sum() * 0.01
    end,
  }
end

-- The forward ends after the second block.
function own.early(policy)
  return {
    level = "token",
    upto = 2,
    around = function(layer, hidden) return layer == 2 and hidden:exp():log() or nil end,
    count = own.token.count,
    values = function(batch, hidden) return lens(policy, batch, hidden) end,
    loss = function(_, log_probs) return -log_probs:sum() end,
  }
end

-- Only a state leads to the blocks below a cut, and not on a rank without a target.
function own.cut(policy)
  return {
    level = "token",
    states = { 1 },
    around = { [2] = function(hidden) return hidden:detach() end },
    count = own.token.count,
    values = function(batch, hidden) return batch:token_log_probs(policy, hidden) end,
    loss = function(batch, log_probs)
      local rows = batch.states[1][batch.targets:gt(-1)]
      if rows:numel() == 0 then return 0 end
      return -log_probs:sum() + rows:square():sum()
    end,
  }
end

-- A vector of its own learns, which is added to the state after a layer.
function own.steered(policy, c)
  local width = moonring.model.open_config(c.model_name_or_path):facts().hidden_size
  local values = moonring.arange(width, { dtype = policy:matmul_dtype() }) * 0.01
  local vector = moonring.comm.parameter("steering", values)
  return {
    level = "token",
    around = { [1] = function(hidden) return hidden + vector:use() end },
    parameters = moonring.comm.parameters { vector },
    count = own.token.count,
    loss = own.token.loss,
  }
end

-- Nothing else learns.
function own.steered_alone(policy, c)
  for _, each in ipairs(policy:parameters():list()) do each:set_trainable(false) end
  return own.steered(policy, c)
end

return own
