--- PCGrad (Yu et al. 2020, arXiv 2001.06782) on two losses of the same tokens: the likelihood of
-- the targets, and the entropy of the predictions, which makes a model more certain (Agarwal et al.
-- 2025, arXiv 2505.15134). Where their gradients conflict, each loses its component along the
-- other. The keys are those of `moonring train`. The result is the same for any sp, dp, zero_stage
-- and micro-batches.
-- moonring scripts/examples/pcgrad.lua config.yaml zero_stage=3 sequence_parallel_size=2
local moonring = require "moonring"

-- `a` without its component along `b`, if they conflict.
local function projected(a, b)
  local product = a:dot(b)
  return product < 0 and a - b * (product / b:dot(b)) or a
end

local function objective(_, policy)
  return {
    level = "token",
    losses = { "likelihood", "entropy" },
    count = function(batch) return batch:count_targets() end,
    values = function(batch, hidden)
      return { log_probs = batch:token_log_probs(policy, hidden),
        entropy = batch:entropy(policy, hidden) }
    end,
    loss = function(_, of)
      return { likelihood = -of.log_probs:sum(), entropy = of.entropy:sum() }
    end,
    combine = function(gradients) -- of the whole step, summed over ranks
      local a, b = gradients.likelihood, gradients.entropy
      return projected(a, b) + projected(b, a)
    end,
  }
end

local run = moonring.run.open(moonring.config.command(arg), { objective = objective })
for step in run:steps() do
  run:log(run:update(step))
end
run:finish()
