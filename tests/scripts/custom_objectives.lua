--- Custom losses for invariance.lua: tables, or functions that make such a table from the policy
-- and the configuration.
local moonring = require "moonring"

-- The losses of scripts/own_loss.lua and scripts/dpo.lua.
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

-- A policy-gradient loss. Every document is an answer, with an advantage that depends on its index
-- in the step; one in three is masked. The log-probs of the sampling policy are this policy's plus
-- an offset for each token.
local function policy_gradient(options)
  return function(policy)
    local loss, temperature = moonring.objectives.policy_gradient(options), 0.8
    local function by_document(batch, of)
      local all = {}
      for i, place in ipairs(batch:places()) do
        for d = 1, batch:document_counts()[i] do all[#all + 1] = of(place * 3 + d) end
      end
      return all
    end
    local function counted(batch)
      return by_document(batch, function(k) return k % 3 ~= 0 end)
    end
    return {
      level = "sequence",
      needs_reference = loss:needs_reference() and "tokens" or nil,
      temperature = temperature,
      count = function(batch)
        return loss:count { targets = batch:document_targets(), counted = counted(batch) }
      end,
      values = function(batch, hidden)
        return batch:token_log_probs(policy, hidden, { temperature = temperature,
          statistics = { "entropy" } })
      end,
      loss = function(batch, log_probs)
        local whole = batch:join(log_probs)
        assert((batch:cut(whole) - log_probs:detach():to "fp64"):abs():sum():item() == 0
          and whole:numel() == #batch.micro:labels():tolist(), "join is not cut's inverse")
        local place = (batch.positions * 7 + batch.ids):to "fp64"
        local entropy = batch.statistics.entropy
        return loss:loss(batch.layout, batch.mesh, {
          log_probs = log_probs,
          old = log_probs:detach():to "fp64" + place:sin() * 0.7 + 0.2,
          reference = batch.reference,
          targets = batch.targets,
          advantages = moonring.tensor(by_document(batch, math.sin), "fp64"),
          counted = counted(batch),
          entropy = entropy,
          high_entropy = options.loss_type ~= "rloo" and entropy:gt(5.5) or nil,
        })
      end,
    }
  end
end

for _, loss_type in ipairs { "grpo", "bnpo", "dr_grpo", "dapo" } do
  for _, level in ipairs { "token", "sequence" } do
    own[loss_type .. "_" .. level] = policy_gradient { loss_type = loss_type, beta = 0.3,
      epsilon_high = 0.3, delta = 1.5, max_completion_length = 500,
      importance_sampling_level = level }
  end
end
own.rloo = policy_gradient { loss_type = "rloo" }

-- Prompts attend in both directions, except in the third layer, whose mask is causal.
own.prefix = setmetatable({
  mask = function(batch)
    return { prefix = batch:sequence():prompts(), layers = { { window = 90 }, {}, false } }
  end,
}, { __index = own.token })
-- Each rejected answer also attends to the prompt of its chosen answer, which it has as parent; in
-- the second layer, prompts attend in both directions.
own.branch = setmetatable({
  mask = function(batch)
    local prompts, parents = batch:sequence():prompts(), {}
    for d = 2, #prompts, 2 do parents[d] = { document = d - 1, length = prompts[d - 1] } end
    return { parents = parents, layers = { {}, { prefix = prompts, window = 130 } } }
  end,
}, { __index = own.sequence })

-- Returns log-probs from an inner layer's hidden state, by the final norm and the head.
local function lens(policy, batch, state)
  return batch:token_log_probs(policy, policy:norm(state))
end

-- A loss of the log-probs of the last layer and of two inner hidden states, while a hook changes
-- the hidden states between them.
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

-- A loss of a forward that stops after the second block.
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

-- The blocks below a detached point get their gradient only through a hidden state, and on a rank
-- without a target they get none.
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

-- Weights each token by a function of its document's log-prob, through which the gradient flows
-- too: a sum over ranks, given back to the tokens.
own.per_token = {
  level = "token",
  count = own.token.count,
  loss = function(batch, log_probs)
    local means = batch:document_sums(log_probs) / batch:document_targets():clamp(1):on(log_probs)
    local weights = batch:per_token(means:tanh())
    return -(log_probs:exp() * weights):sum(), { weight = { weights:sum(), batch.targets:numel() } }
  end,
}

-- The same weights in a loss that is equal on all ranks.
function own.per_token_sequence(policy)
  return {
    level = "sequence",
    count = own.token.count,
    values = function(batch, hidden) return batch:token_log_probs(policy, hidden) end,
    loss = function(batch, log_probs)
      local sum = own.per_token.loss(batch, log_probs)
      return batch:sum(sum) + batch:document_sums(log_probs):square():sum() * 0.001
    end,
  }
end

-- For each token of the stream, the mirrored one of its document.
local function mirrored_rows(batch)
  local rows, first = {}, 0
  for _, length in ipairs(batch:lengths()) do
    for i = 1, length do rows[first + i] = first + length - i end
    first = first + length
  end
  return moonring.tensor(rows, "int64")
end

-- Multiplies each token's value by that of the mirrored token of its document, which may be on
-- another rank; sends values around and sums what ranks give one another.
own.exchanged = {
  level = "token",
  count = own.token.count,
  loss = function(batch, log_probs)
    local stream = batch:gather(log_probs)
    local mirrored = batch:cut(stream:index_select(0, mirrored_rows(batch)))
    -- Each rank scatters its own values; their sum is the stream.
    local own_rows = batch.layout:indices()[batch.mesh:sp_rank() + 1]
    local scattered = batch:reduce_scatter(
      moonring.zeros({ stream:numel() }, { dtype = log_probs:dtype() })
        :index_copy(0, own_rows, log_probs:sin()))
    local ranks, n, counts = batch.mesh:sp_size(), log_probs:numel(), {}
    for rank = 1, ranks do counts[rank] = math.floor((n + rank - 1) / ranks) end
    local sent, received = batch:all_to_all(log_probs, counts)
    local back = batch:all_to_all(sent:exp(), received)
    return (log_probs * mirrored + scattered * back):sum() * 0.1
  end,
}

-- Trains a vector that is added to the hidden state after a layer.
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

-- Trains only that vector.
function own.steered_alone(policy, c)
  for _, each in ipairs(policy:parameters():list()) do each:set_trainable(false) end
  return own.steered(policy, c)
end

return own
