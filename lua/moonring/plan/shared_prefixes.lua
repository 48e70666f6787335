--- Computes what sharing prefixes saves (share_prefixes). n documents of L tokens have the same
-- prompt of P tokens. They share p = P - 1 tokens, and each has b = L - p of its own:
--
--   tokens             n L       ->  p + n b
--   pairs of tokens    n L^2/2   ->  p^2/2 + n (p b + b^2/2)
--
-- The operations are a weighted sum of tokens and pairs (moonring.plan.model_flops).
local model_flops = require "moonring.plan.model_flops"

---@class moonring.plan_shared_prefixes
local shared_prefixes = {}

--- The tokens of an example whose documents share their prompt; and the fraction of operations that
--- remains, compared with an example that shares nothing.
---@param flops moonring.ModelFlops
---@param documents integer per example
---@param length integer tokens of each document
---@param prompt integer tokens of the common prompt
---@return integer tokens
---@return number part
function shared_prefixes.cost(flops, documents, length, prompt)
  local p = math.max(prompt - 1, 0)
  local tokens = p + documents * (length - p)
  local _, shared = model_flops.total(flops, tokens,
    p * p + documents * (length * length - p * p))
  local _, apart = model_flops.total(flops, documents * length, documents * length * length)
  return tokens, shared / apart
end

return shared_prefixes
