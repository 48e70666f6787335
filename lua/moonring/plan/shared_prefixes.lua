--- The savings of sharing prefixes (share_prefixes). n documents of L tokens whose prompt has P
-- tokens share p = P - 1 of them, and each keeps b = L - p:
--
--   tokens             n L       ->  p + n b
--   pairs of tokens    n L^2/2   ->  p^2/2 + n (p b + b^2/2)
--
-- Operations are a weighted sum of the two (moonring.plan.model_flops).
local model_flops = require "moonring.plan.model_flops"

---@class moonring.plan_shared_prefixes
local shared_prefixes = {}

--- Tokens of an example whose documents share their prompt, and its operations as a fraction of
--- those without sharing.
---@param flops moonring.ModelFlops
---@param documents integer per example
---@param length integer tokens of each document
---@param prompt integer tokens that they have in common
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
